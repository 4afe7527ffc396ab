package results

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func oneRun() *Run {
	return sample{seed: 7, names: [4]string{"alpha", "alpha two", "beta", "limit"}, workloads: sampleWorkloads()[2:], rounds: 1, seconds: 5}.runs()[0]
}

func TestRoundTrip(t *testing.T) {
	run := oneRun()
	run.Warn(WarnSteal, "%d %% of the time", 3)
	run.Failure = "the broker went away"
	run.Verify = json.RawMessage(`{"lost":0}`)
	for _, name := range []string{"run.json", "run.json.gz"} {
		path := filepath.Join(t.TempDir(), name)
		if err := run.Write(path); err != nil {
			t.Fatal(err)
		}
		back, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		// The file is indented; the meaning of raw JSON is the same.
		for _, raw := range []*json.RawMessage{&back.Verify, &back.Workload.Parameters} {
			var flat bytes.Buffer
			if err := json.Compact(&flat, *raw); err != nil {
				t.Fatal(err)
			}
			*raw = flat.Bytes()
		}
		if !reflect.DeepEqual(run, back) {
			t.Errorf("%s: wrote\n%+v\nread\n%+v", name, run, back)
		}
		h, err := back.Line("e2e").Latencies()
		if err != nil || h.At(99) != mustPercentile(t, run.Line("e2e"), 99) {
			t.Errorf("%s: the histogram gives %v, %v", name, h, err)
		}
	}
}

func mustPercentile(t *testing.T, l *Line, p float64) int64 {
	t.Helper()
	us, ok := l.Percentile(p)
	if !ok {
		t.Fatalf("no percentile %v", p)
	}
	return us
}

func TestSetSharesItsEnvironment(t *testing.T) {
	runs := sample{seed: 7, names: [4]string{"alpha", "alpha two", "beta", "limit"}, workloads: sampleWorkloads()[:1], rounds: 1, seconds: 2}.runs()
	set := &Set{Environment: runs[0].Environment, Runs: runs}
	for _, r := range runs {
		r.Environment = nil
	}
	path := filepath.Join(t.TempDir(), "set.json.gz")
	if err := set.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := ReadSet(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range back.Runs {
		if r.Environment == nil || r.Environment.Kernel != "0.0-synthetic" {
			t.Fatalf("run %s has environment %v", r.ID, r.Environment)
		}
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "4 runs where one was expected") {
		t.Errorf("Read of a set: %v", err)
	}
}

func TestRefusedFiles(t *testing.T) {
	run := oneRun()
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	_ = json.NewEncoder(packer).Encode(run)
	packer.Close()
	good, err := json.MarshalIndent(run, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, new string) []byte {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("no %q in a run", old)
		}
		return bytes.Replace(good, []byte(old), []byte(new), 1)
	}
	for name, test := range map[string]struct {
		data []byte
		want string
		is   error
	}{
		"newer":       {replaced(`"schemaVersion": 1`, `"schemaVersion": 2`), "version 2; this posthouse reads up to 1", ErrNewerSchema},
		"newer run":   {[]byte(`{"schemaVersion":1,"runs":[` + string(replaced(`"schemaVersion": 1`, `"schemaVersion": 9`)) + `]}`), "has version 9", ErrNewerSchema},
		"foreign":     {[]byte(`{"name":"package","version":"1.0.0"}`), "no result of posthouse", ErrNotResults},
		"array":       {[]byte(`[1]`), ":1:", nil},
		"empty":       {nil, "unexpected end", nil},
		"cut":         {good[:100], "unexpected end", nil},
		"comma":       {[]byte("{\n \"schemaVersion\": 1,\n \"workload\": {},,\n}"), ":3:17 (byte 39): invalid character ','", nil},
		"text":        {replaced(`"durationMs": 5000`, `"durationMs": "long"`), "durationMs: a string where int64 was expected", nil},
		"null run":    {[]byte(`{"schemaVersion":1,"runs":[null]}`), "run 0 is null", nil},
		"no id":       {replaced(`"id": "synthetic`, `"id": "", "x": "`), "id is empty", nil},
		"role":        {replaced(`"role": "subject"`, `"role": "winner"`), `contender.role "winner"`, nil},
		"negative":    {replaced(`"errors": 0`, `"errors": -1`), "line ack: a figure is -1", nil},
		"histogram":   {replaced(`"histogram": "HIST`, `"histogram": "HUST`), "line ack: histogram", nil},
		"headline":    {replaced(`"mode": "e2e"`, `"mode": "e2e", "headline": "beauty"`), `"beauty" is no metric`, nil},
		"cut gzip":    {packed.Bytes()[:packed.Len()/2], "unexpected EOF", nil},
		"broken gzip": {[]byte{0x1f, 0x8b, 1, 2}, "file.json: ", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.json")
			if err := os.WriteFile(path, test.data, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := ReadSet(path)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("got %v, want %q behind the name", err, test.want)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
			var where *FileError
			if !errors.As(err, &where) {
				t.Errorf("%v names no file", err)
			}
		})
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	text, _ := json.Marshal(oneRun())
	text = bytes.Replace(text, []byte(`{"schemaVersion":1`), []byte(`{"schemaVersion":1,"mood":"good"`), 1)
	path := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
}

func TestReadAll(t *testing.T) {
	dir := t.TempDir()
	early, late := oneRun(), oneRun()
	late.ID, late.StartedAt = "late", early.StartedAt.Add(time.Hour)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	must(late.Write(filepath.Join(dir, "a", "1.json")))
	must(early.Write(filepath.Join(dir, "a", "b", "2.json.gz")))
	must(os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"name":"x"}`), 0o644))
	must(os.WriteFile(filepath.Join(dir, "notes.txt"), []byte(`no JSON`), 0o644))

	// The same run by two ways is one; order is that of time.
	runs, err := ReadAll(dir, filepath.Join(dir, "a", "1.json"))
	must(err)
	if len(runs) != 2 || runs[0].ID != early.ID || runs[1].ID != "late" {
		t.Errorf("read %d runs, first %s", len(runs), runs[0].ID)
	}
	// What is named must be results; what lies in a directory must not be damaged ones.
	if _, err := ReadAll(filepath.Join(dir, "package.json")); !errors.Is(err, ErrNotResults) {
		t.Errorf("package.json by name: %v", err)
	}
	must(os.WriteFile(filepath.Join(dir, "damaged.json"), []byte("{\n\"schemaVersion\": }"), 0o644))
	if _, err := ReadAll(dir); err == nil || !strings.Contains(err.Error(), "damaged.json:2:18") {
		t.Errorf("a damaged file: %v", err)
	}
	if _, err := ReadAll(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no results in") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := ReadAll(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestWriteWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	run := oneRun()
	if err := run.Write(path); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	run.Kind = "guess"
	if err := run.Write(path); err == nil || !strings.Contains(err.Error(), `kind "guess"`) {
		t.Errorf("an invalid run: %v", err)
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(before, after) {
		t.Error("a refused write changed the file")
	}
	// A directory cannot be replaced by a file: nothing is left behind.
	if err := WriteFile(dir, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	entries, _ := os.ReadDir(dir)
	siblings, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".*"))
	if len(entries) != 1 || len(siblings) != 0 {
		t.Errorf("left behind: %v %v", entries, siblings)
	}
}

func FuzzParse(f *testing.F) {
	good, _ := json.Marshal(oneRun())
	f.Add(good)
	f.Add([]byte(`{"schemaVersion":1,"runs":[]}`))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := parse("fuzzed", data)
		if err != nil {
			return
		}
		// What is read can be shown.
		if len(set.Runs) > 0 {
			report := NewReport(set.Runs, nil)
			var out bytes.Buffer
			if err := errors.Join(report.HTML(&out), report.Markdown(&out), report.CSV(&out), report.JSON(&out)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
