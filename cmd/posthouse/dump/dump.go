// Package dump has the command posthouse dump: it reads the files of a log
// directory from outside, shows what they hold and checks that they hold
// together. It works on files of Posthouse and of Kafka alike, beside a broker
// that runs or without one, and never writes.
package dump

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/storage/record"
)

// decodeAuto decodes records of the topics that a broker keeps for itself.
const decodeAuto = "auto"

type options struct {
	verify  bool
	records bool
	decode  string
	from    record.Offset
	count   int
	decoder decoder // as decode says, nil for none and auto
}

// New makes posthouse dump.
func New() *cobra.Command {
	opts := &options{}
	var asJSON bool
	var from int64
	cmd := &cobra.Command{
		Use: "dump PATH...", Short: "Show or verify files of a log directory: segments, indexes, snapshots, checkpoints",
		Long: "Show what files of a log directory hold: segments (with --records their records too),\n" +
			"offset, time and transaction indexes, producer snapshots, leader epochs, checkpoints,\n" +
			"meta.properties. A directory is listed; a partition's directory with its segments.\n" +
			"Records of __consumer_offsets and __transaction_state are decoded.\n\n" +
			"--verify reads everything under the paths, checks checksums, the framing of records,\n" +
			"the order of offsets, and indexes against their segments, and names the file and the\n" +
			"byte of what is wrong; the exit code is 1 then. Files of a broker that runs can be\n" +
			"looked at, but are being written: what is wrong at their end may just be under way.",
		Example: "  posthouse dump data/orders-0\n" +
			"  posthouse dump data/orders-0/00000000000000000000.log --records --from 120 --count 3\n" +
			"  posthouse dump data/__consumer_offsets-7/00000000000000000000.log --records --json\n" +
			"  posthouse dump --verify data",
		Args: cli.Names("path"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			opts.from = record.Offset(from)
			if err := opts.check(); err != nil {
				return err
			}
			r := &report{out: cmd.OutOrStdout(), json: asJSON, silent: opts.verify}
			return run(r, opts, paths)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opts.verify, "verify", false, "check everything, show what is wrong alone")
	f.BoolVar(&opts.records, "records", false, "show the records of segments")
	f.StringVar(&opts.decode, "decode", decodeAuto, "records as: auto, none, offsets, transactions")
	f.Int64Var(&from, "from", 0, "begin at the batch with this `offset`")
	f.IntVar(&opts.count, "count", 0, "show this many batches; 0 is all")
	f.BoolVar(&asJSON, "json", false, "print a JSON object a line")
	cli.FlagWords(cmd, "decode", append([]string{decodeAuto, "none"}, cli.SortedNames(decoders)...)...)
	return cmd
}

func (o *options) check() error {
	if o.from < 0 || o.count < 0 {
		return cli.Usagef("--from and --count: want 0 or more")
	}
	if o.decode == decodeAuto || o.decode == "none" {
		return nil
	}
	var ok bool
	if o.decoder, ok = decoders[o.decode]; !ok {
		return cli.Usagef("--decode %q: want auto, none, %s", o.decode, strings.Join(cli.SortedNames(decoders), ", "))
	}
	return nil
}

func run(r *report, opts *options, paths []string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, dumpPath(r, opts, filepath.Clean(path)))
	}
	if opts.verify && !r.json {
		r.print("%s, %s: %s, %s; %s\n", cli.Count(r.files, "file"), cli.Bytes(r.bytes), batches(r.batches), cli.Count(int(r.records), "record"), problems(len(r.problems)))
	} else if opts.verify {
		r.encode(object{{"files", r.files}, {"bytes", r.bytes}, {"batches", r.batches}, {"records", r.records}, {"problems", len(r.problems)}})
	}
	err := errors.Join(append(errs, r.err)...)
	if err == nil && len(r.problems) > 0 {
		err = fmt.Errorf("%s found", problems(len(r.problems)))
	}
	return err
}

func batches(n int64) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}

func problems(n int) string {
	if n == 0 {
		return "no problems"
	}
	return cli.Count(n, "problem")
}

func dumpPath(r *report, opts *options, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return dumpFile(r, opts, path)
	case opts.verify:
		return verifyDir(r, opts, path)
	}
	return listDir(r, path)
}

func dumpFile(r *report, opts *options, path string) error {
	name := filepath.Base(path)
	if isSegment(name) {
		_, err := dumpSegment(r, opts, path)
		return err
	}
	if s := smallFile(name); s != nil {
		return dumpSmall(r, path, s)
	}
	return fmt.Errorf("%s: not a file of a log directory by its name: known are .log, .index, .timeindex, .txnindex, .snapshot, checkpoints, meta.properties, partition.metadata", path)
}

// isSegment says that a name is a segment's, in use, prepared or waiting to be
// deleted.
func isSegment(name string) bool {
	return strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".log.prepared") || strings.HasSuffix(name, ".log.deleted")
}

// verifyDir verifies a partition's directory, or all that a log directory holds.
func verifyDir(r *report, opts *options, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	var segments []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir() && isPartition(e.Name()):
			errs = append(errs, verifyDir(r, opts, path))
		case e.IsDir():
		case strings.HasSuffix(e.Name(), ".log") && baseOf(path) >= 0:
			segments = append(segments, path)
		case belongsToSegment(e.Name()) && exists(strings.TrimSuffix(path, filepath.Ext(path))+".log"):
			// Verified with its segment.
		default:
			if s := smallFile(e.Name()); s != nil {
				errs = append(errs, dumpSmall(r, path, s))
			}
		}
	}
	slices.Sort(segments)
	next := record.Offset(-1)
	for _, path := range segments {
		if base := baseOf(path); next > base {
			r.problem(path, 0, "the segment begins at offset %d, the one before it ends at %d", base, next)
		}
		end, err := dumpSegment(r, opts, path)
		errs = append(errs, err)
		next = end
	}
	return errors.Join(errs...)
}

func belongsToSegment(name string) bool {
	switch filepath.Ext(name) {
	case ".index", ".timeindex", ".txnindex":
		return true
	}
	return false
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isPartition says that a directory's name is a partition's.
func isPartition(name string) bool {
	_, err := record.ParseDir(name)
	return err == nil
}

// listDir shows what a directory holds, without reading segments.
func listDir(r *report, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	known := 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		switch s := smallFile(e.Name()); {
		case e.IsDir() && isPartition(e.Name()):
			known++
			segments, size := segmentsIn(path)
			r.item(path, "partition", func() string {
				return fmt.Sprintf("%-40s %s, %s", e.Name()+"/", cli.Count(segments, "segment"), cli.Bytes(size))
			}, func() object { return object{{"segments", segments}, {"bytes", size}} })
		case e.IsDir():
		case isSegment(e.Name()):
			known++
			r.item(path, "segment", func() string { return fmt.Sprintf("%-40s segment, %s", e.Name(), cli.Bytes(info.Size())) },
				func() object { return object{{"bytes", info.Size()}, {"modified", info.ModTime().UnixMilli()}} })
		case s != nil:
			known++
			r.item(path, "file", func() string { return fmt.Sprintf("%-40s %s, %d bytes", e.Name(), s.what, info.Size()) },
				func() object { return object{{"what", s.what}, {"bytes", info.Size()}} })
		}
	}
	if known == 0 {
		return fmt.Errorf("%s holds nothing that belongs to a log directory", dir)
	}
	return nil
}

// segmentsIn counts the segments of a partition and their bytes.
func segmentsIn(dir string) (n int, size int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isSegment(e.Name()) {
			n++
			size += info.Size()
		}
	}
	return n, size
}
