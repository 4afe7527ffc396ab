//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKcat produces a million lines with each codec and reads them back byte
// for byte (librdkafka: it offers codecs only if Produce v0 is advertised).
func TestKcat(t *testing.T) {
	kcat := kcat(t)
	lines := amount(1_000_000, 50_000)
	input := filepath.Join(scratchDir(t), "lines")
	writeLines(t, input, lines)
	want := fileSum(t, input)
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			t.Run(codec, func(t *testing.T) {
				topic := "kcat-" + codec
				produce := exec.Command(kcat, "-P", "-b", s.addr, "-t", topic, "-p", "0", "-z", codec)
				in, err := os.Open(input)
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				produce.Stdin = in
				if out := run(t, 3*time.Minute, produce); strings.Contains(out, "ERROR") {
					t.Fatalf("kcat -P: %s", tail(out))
				}
				output := filepath.Join(scratchDir(t), "read")
				consume(t, kcat, s.addr, topic, output)
				if got := fileSum(t, output); got != want {
					t.Fatalf("the lines read differ from those written: %s", firstDifference(t, input, output))
				}
				out := run(t, time.Minute, exec.Command(kcat, "-Q", "-b", s.addr, "-t", topic+":0:-1"))
				if !strings.Contains(out, fmt.Sprintf("%s [0] offset %d", topic, lines)) {
					t.Errorf("kcat -Q for the end says %q, want offset %d", out, lines)
				}
				// The first timestamp that is at least 1 belongs to the first record.
				out = run(t, time.Minute, exec.Command(kcat, "-Q", "-b", s.addr, "-t", topic+":0:1"))
				if !strings.Contains(out, topic+" [0] offset 0") {
					t.Errorf("kcat -Q for timestamp 1 says %q, want offset 0", out)
				}
			})
		}
		out := run(t, time.Minute, exec.Command(kcat, "-L", "-b", s.addr))
		for _, want := range []string{
			"broker 1 at " + s.addr,
			`topic "kcat-zstd" with 1 partitions`,
			"partition 0, leader 1, replicas: 1, isrs: 1",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("kcat -L lacks %q:\n%s", want, out)
			}
		}
		s.stop(t)
		dumpLogs(t, s.Config.Dir, allSegments)
	})
}

// consume reads a topic's only partition to its end into a file.
func consume(t *testing.T, kcat, addr, topic, output string) {
	t.Helper()
	out, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(kcat, "-C", "-b", addr, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q")
	cmd.Stdout = out
	if text := run(t, 3*time.Minute, cmd); strings.Contains(text, "ERROR") {
		t.Fatalf("kcat -C: %s", tail(text))
	}
}

// writeLines writes lines of 1 to 200 bytes: numbers, text that compresses, and
// bytes that do not, in all values but the newline.
func writeLines(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 0, 64)
	for i := range n {
		fmt.Fprintf(w, "%d ", i)
		if i%3 == 0 {
			noise = noise[:rng.IntN(64)]
			for j := range noise {
				if noise[j] = byte(rng.Uint32()); noise[j] == '\n' {
					noise[j] = 0
				}
			}
			w.Write(noise)
		} else {
			w.WriteString(strings.Repeat("post", rng.IntN(48)))
		}
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func fileSum(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func firstDifference(t *testing.T, want, got string) string {
	t.Helper()
	a, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	line := bytes.Count(a[:i], []byte{'\n'})
	return fmt.Sprintf("%d bytes written, %d read, the first difference at byte %d (line %d)", len(a), len(b), i, line)
}
