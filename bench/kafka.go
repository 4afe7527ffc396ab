package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// KafkaVersion is the Apache Kafka that everything here is held against.
const KafkaVersion = "4.4.0"

//go:embed kafka-pom.xml
var kafkaPOM []byte

// CacheDir holds what tests and benchmarks install, outside the repository:
// $POSTHOUSE_E2E_CACHE, or posthouse-e2e in the user's cache directory.
func CacheDir() (string, error) {
	dir := os.Getenv("POSTHOUSE_E2E_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("cache directory: %w", err)
		}
		dir = filepath.Join(base, "posthouse-e2e")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// KafkaJars returns the directory with Kafka's jars, which Maven fetches once
// (54 MB).
func KafkaJars(ctx context.Context) (string, error) {
	return MavenJars(ctx, "kafka-"+KafkaVersion, kafkaPOM)
}

// MavenJars returns the directory of that name in the cache with the jars that
// a pom depends on, which Maven fetches once.
func MavenJars(ctx context.Context, name string, pom []byte) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	work, err := os.MkdirTemp(cache, "maven-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	libs := filepath.Join(work, "libs")
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+libs)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn dependency:copy-dependencies: %w\n%s", err, out)
	}
	// The rename publishes whole directories only; who loses a race against
	// another process uses that one's.
	if err := os.Rename(libs, dir); err != nil && !errors.Is(err, os.ErrExist) {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", err
		}
	}
	return dir, nil
}

// Java returns the newest Java (17 or later) of this machine: $POSTHOUSE_JAVA,
// the JVMs under /usr/lib/jvm, or the one on PATH.
func Java() (string, error) {
	if java := os.Getenv("POSTHOUSE_JAVA"); java != "" {
		return java, nil
	}
	best, bestVersion := "", 0
	homes, _ := filepath.Glob("/usr/lib/jvm/*/release") // the pattern is well formed
	sort.Strings(homes)
	for _, release := range homes {
		data, err := os.ReadFile(release)
		if err != nil {
			continue
		}
		version := javaMajor(string(data))
		java := filepath.Join(filepath.Dir(release), "bin", "java")
		if _, err := os.Stat(java); err == nil && version > bestVersion {
			best, bestVersion = java, version
		}
	}
	if bestVersion >= 17 {
		return best, nil
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("no Java 17 or newer: %w", err)
	}
	return java, nil
}

// javaMajor reads the major version out of a JDK's release file.
func javaMajor(release string) int {
	for line := range strings.Lines(release) {
		var major int
		if _, err := fmt.Sscanf(line, "JAVA_VERSION=\"%d", &major); err == nil {
			return major
		}
	}
	return 0
}

// ToolFlags suit a tool that lives for seconds: the second compiler and
// parallel collector threads would only cost. LoadFlags suit a load generator.
var (
	ToolFlags = []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	LoadFlags = []string{"-Xms512m", "-Xmx512m", "-XX:+UseG1GC"}
)

// JavaCommand prepares a class of Kafka's jars to be run.
func JavaCommand(ctx context.Context, flags []string, class string, args ...string) (*exec.Cmd, error) {
	java, err := Java()
	if err != nil {
		return nil, err
	}
	jars, err := KafkaJars(ctx)
	if err != nil {
		return nil, err
	}
	full := slices.Concat(flags, []string{"-cp", jars + "/*", class}, args)
	return exec.CommandContext(ctx, java, full...), nil
}

// kafkaProperties renders the reference broker's configuration: one node that
// is broker and controller.
func kafkaProperties(dir, addr, controllerAddr string, overrides map[string]string) string {
	properties := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"controller.quorum.bootstrap.servers":              controllerAddr,
		"listeners":                                        "PLAINTEXT://" + addr + ",CONTROLLER://" + controllerAddr,
		"advertised.listeners":                             "PLAINTEXT://" + addr,
		"controller.listener.names":                        "CONTROLLER",
		"log.dirs":                                         dir,
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
	}
	for key, value := range overrides {
		// Keys of ours mean nothing there.
		if !strings.HasPrefix(key, "netio.") && !strings.HasPrefix(key, "meta.") {
			properties[key] = value
		}
	}
	var text strings.Builder
	for key, value := range properties {
		fmt.Fprintf(&text, "%s=%s\n", key, value)
	}
	return text.String()
}

// formatKafka writes a new cluster's metadata into the broker's directory.
func formatKafka(ctx context.Context, config string) error {
	// Any cluster id will do: each broker here is a cluster of its own.
	cmd, err := JavaCommand(ctx, ToolFlags, "kafka.tools.StorageTool", "format", "--standalone", "-t", "cG9zdGhvdXNlLWUyZS0wMQ", "-c", config)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("StorageTool format: %w\n%s", err, out)
	}
	return nil
}
