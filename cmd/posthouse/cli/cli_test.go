package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestNearest(t *testing.T) {
	names := []string{"orders", "events", "payments", "o"}
	for name, want := range map[string]string{
		"ordres": "orders", "Orders": "orders", "order": "orders", "evnts": "events", "zzz": "", "paymnets": "payments", "": "o", "x": "o",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("kitten, sitting: %d", d)
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2024, 5, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"1700000000000":         time.UnixMilli(1_700_000_000_000),
		"2024-05-01T12:30:00Z":  time.Date(2024, 5, 1, 12, 30, 0, 0, time.UTC),
		"2024-05-01T12:30:00.5": time.Date(2024, 5, 1, 12, 30, 0, 5e8, time.UTC),
		"2024-05-01 12:30":      time.Date(2024, 5, 1, 12, 30, 0, 0, time.UTC),
		"2024-05-01":            time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC),
		"2h":                    now.Add(-2 * time.Hour), "1d12h": now.Add(-36 * time.Hour), "PT90S": now.Add(-90 * time.Second), "P1DT1H": now.Add(-25 * time.Hour),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-5", "yesterday", "1x", "d", "-2h", "999999999d", "P"} {
		if got, err := ParseTime(text, now); ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestParseTopicPartitions(t *testing.T) {
	for text, want := range map[string]string{
		"orders": "orders []", "orders:3": "orders [3]", "o:0,2-4": "o [0 2 3 4]",
	} {
		tp, err := ParseTopicPartitions(text)
		if got := strings.ReplaceAll(tp.Topic+" ["+strings.Trim(Int32s(tp.Partitions), "-")+"]", ",", " "); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":1", "o:", "o:x", "o:3-1", "o:-1", "o:0-99999999999", "o:0-2000000000"} {
		if _, err := ParseTopicPartitions(text); ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string]string{
		"broker": "broker:9092", "broker:19092": "broker:19092", "::1": "[::1]:9092", "[::1]:5": "[::1]:5",
		"PLAINTEXT://127.0.0.1:9092": "127.0.0.1:9092", "a:1,b:2": "a:1,b:2", " a:1 ": "a:1",
	} {
		got, err := parseSeeds(strings.Split(text, ","))
		if err != nil || strings.Join(got, ",") != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":9092", "a:0", "a:b:c:", "a:99999", "a b", "http://x/y"} {
		if got, err := parseSeeds([]string{text}); ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestTable(t *testing.T) {
	table := NewTable("NAME", ">N")
	table.Row("é", 1)
	table.Row("a\x1b[2J", 1000)
	var b bytes.Buffer
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "NAME         N\né            1\na\\x1b[2J  1000\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestAsk(t *testing.T) {
	for answer, want := range map[string]error{"y\n": nil, "YES\n": nil, "y": nil, "n\n": ErrDeclined, "\n": ErrDeclined, "": ErrDeclined} {
		var out bytes.Buffer
		if err := ask(strings.NewReader(answer), &out, "delete it"); !errors.Is(err, want) || !strings.HasPrefix(out.String(), "This will delete it. Go on? [y/N] ") {
			t.Errorf("%q: %v, %q", answer, err, out.String())
		}
	}
}

// connect tries to reach address as a command does.
func connect(t *testing.T, address string, properties ...string) (warned string, err error) {
	t.Helper()
	c := &Conn{}
	cmd := &cobra.Command{Use: "x"}
	c.Register(cmd)
	var warnings bytes.Buffer
	cmd.SetErr(&warnings)
	args := []string{"--bootstrap", address, "--timeout", "300ms"}
	for _, p := range properties {
		args = append(args, "-X", p)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := c.Connect(ctx, cmd, Anything)
	if err == nil {
		s.Client.Close()
	}
	return warnings.String(), err
}

// TestNobodyThere names the address and what may be wrong.
func TestNobodyThere(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, err = connect(t, silent.Addr().String())
	if err == nil || !strings.Contains(err.Error(), silent.Addr().String()+" accepts connections but did not answer within 300ms") {
		t.Errorf("%v", err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	_, err = connect(t, address)
	if want := "no broker can be reached at " + address + ": connect: connection refused: is it running, and is --bootstrap right?"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestProperties(t *testing.T) {
	for property, want := range map[string]string{
		"security.protocol=TLS":            "want PLAINTEXT",
		"security.protocol=SASL_PLAINTEXT": "SASL needs sasl.jaas.config",
		"metadata.max.age.ms=soon":         "metadata.max.age.ms=soon: want milliseconds",
		"nonsense":                         "want key=value",
		"acks":                             "want key=value",
	} {
		if _, err := connect(t, "127.0.0.1:1", property); ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", property, err)
		}
	}
	if warned, _ := connect(t, "127.0.0.1:1", "key.serializer=x", "acks=all"); warned != "posthouse: the property key.serializer has no effect here\n" {
		t.Errorf("warned %q", warned)
	}
	_, err := connect(t, "127.0.0.1:1", "security.protocol=SSL", "ssl.truststore.location=/nowhere.jks", "ssl.truststore.type=JKS")
	if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "only PEM") {
		t.Errorf("%v", err)
	}
	_, err = connect(t, "127.0.0.1:1", "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI",
		`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a\"b";`)
	if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "want PLAIN, SCRAM") {
		t.Errorf("%v", err)
	}
}

func TestCommandConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(file, []byte("bootstrap.servers=127.0.0.1:2\nclient.id=a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Conn{ConfigFile: file, Bootstrap: []string{defaultBootstrap}, Timeout: time.Second, Properties: []string{"client.id=b"}}
	properties, err := c.ReadProperties()
	if err != nil || properties["client.id"] != "b" {
		t.Fatalf("%v, %v", properties, err)
	}
	client, err := c.newClient(false, &bytes.Buffer{}, Anything)
	if err != nil || c.Bootstrap[0] != "127.0.0.1:2" {
		t.Fatalf("%v, %v", c.Bootstrap, err)
	}
	client.Close()
	c.ConfigFile = file + ".none"
	if _, err := c.ReadProperties(); err == nil || !strings.Contains(err.Error(), "--command-config") {
		t.Errorf("%v", err)
	}
}

// A name of 32 KiB makes one long line, not a column of that width.
func TestTableOfALongName(t *testing.T) {
	table := NewTable("GROUP", "STATE")
	table.Row(strings.Repeat("x", 32<<10), "Empty")
	for range 1000 {
		table.Row("g", "Stable")
	}
	var out strings.Builder
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	if n := out.Len(); n > 32<<10+1100*(widthMax+10) {
		t.Errorf("the table has %d bytes", n)
	}
	if line := strings.Split(out.String(), "\n")[2]; line != "g"+strings.Repeat(" ", widthMax-1)+gap+"Stable" {
		t.Errorf("a row is %q", line)
	}
}
