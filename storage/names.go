package storage

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/storage/record"
)

// Names of files as in Kafka's LogFileUtils and UnifiedLog.
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"

	deletedSuffix = ".deleted" // a file that waits for file.delete.delay.ms
	cleanedSuffix = ".cleaned" // an unfinished compaction: worthless
	swapSuffix    = ".swap"    // a finished compaction that is being put in place
	tempSuffix    = ".tmp"     // an unfinished atomic write: worthless

	deleteDirSuffix = "-delete"
	strayDirSuffix  = "-stray"
	futureDirSuffix = "-future"

	// preparedName is the next segment, made ahead of the roll by a worker. Its
	// suffix hides it from Kafka; see prepare.go.
	preparedName = "next.log.prepared"

	leaderEpochName       = "leader-epoch-checkpoint"
	partitionMetadataName = "partition.metadata"

	lockName             = ".lock"
	metaPropertiesName   = "meta.properties"
	cleanMarkName        = ".kafka_cleanshutdown"
	recoveryPointName    = "recovery-point-offset-checkpoint"
	logStartName         = "log-start-offset-checkpoint"
	replicationName      = "replication-offset-checkpoint"
	clusterMetadataTopic = "__cluster_metadata"
	metaStoreDirName     = "__meta"

	offsetDigits = 20
)

// segmentName is the name of a segment's file: 20 digits and a suffix.
func segmentName(base record.Offset, suffix string) string {
	return fmt.Sprintf("%0*d%s", offsetDigits, int64(base), suffix)
}

// parseSegmentName is the inverse; false for any other name.
func parseSegmentName(name, suffix string) (record.Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != offsetDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false
	}
	return record.Offset(n), true
}

// dirNameMax is the longest name of a directory entry that file systems take.
const dirNameMax = 255

// asideName is the name under which a partition directory is set aside:
// <topic>-<partition>.<32 hex digits><suffix>, the topic cut to fit.
func asideName(tp record.TopicPartition, suffix string) string {
	var id [16]byte
	// crypto/rand.Read never fails: it crashes the program instead.
	_, _ = rand.Read(id[:])
	tail := fmt.Sprintf("-%d.%s%s", tp.Partition, hex.EncodeToString(id[:]), suffix)
	topic := tp.Topic
	if room := dirNameMax - len(tail); len(topic) > room {
		topic = topic[:room]
	}
	return topic + tail
}

// join names a file in a directory.
func join(dir, name string) string { return filepath.Join(dir, name) }
