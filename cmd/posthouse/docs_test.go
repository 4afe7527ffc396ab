package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/engine"
	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/engine/metrics"
)

var rewrite = flag.Bool("rewrite", false, "write the generated parts of docs/ instead of comparing them")

// TestDocs compares the tables in docs/ with the definitions in the code. What
// stands between <!-- begin NAME --> and <!-- end NAME --> is generated; the
// rest is written by hand.
func TestDocs(t *testing.T) {
	for _, page := range []struct {
		path   string
		blocks map[string]string
	}{
		{"../../docs/configuration.md", map[string]string{
			"own keys": brokerTable(func(d *config.Definition) bool { return ownKey(d.Name) }),
			"broker keys": brokerTable(func(d *config.Definition) bool {
				return !ownKey(d.Name) && !d.Inert
			}),
			"keys without effect": brokerTable(func(d *config.Definition) bool { return d.Inert }),
			"topic keys":          topicTable(false), "topic keys without effect": topicTable(true),
		}},
		{"../../docs/compatibility.md", map[string]string{"apis": apiTable()}},
		{"../../docs/commands.md", map[string]string{"commands": commandPages()}},
		{"../../docs/metrics.md", map[string]string{"metrics": metricTable()}},
	} {
		before, err := os.ReadFile(page.path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(before)
		for name, block := range page.blocks {
			head, rest, found := strings.Cut(text, "<!-- begin "+name+" -->\n")
			_, tail, ended := strings.Cut(rest, "<!-- end "+name+" -->\n")
			if !found || !ended {
				t.Fatalf("%s has no block %q", page.path, name)
			}
			text = head + "<!-- begin " + name + " -->\n" + block + "<!-- end " + name + " -->\n" + tail
		}
		if text == string(before) {
			continue
		}
		if !*rewrite {
			t.Errorf("%s is not what the code says; go test ./cmd/posthouse -run TestDocs -rewrite", page.path)
			continue
		}
		if err := os.WriteFile(page.path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	codePath = regexp.MustCompile("`((?:\\.?[a-z0-9_]+/)+[a-z0-9_]+(?:\\.[a-z]+)?)`")
	mdLink   = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

// TestDocsPointToFiles follows every path and link in the pages for people.
func TestDocsPointToFiles(t *testing.T) {
	root := "../.."
	for _, page := range []string{"README.md", "docs/architecture.md", "docs/compatibility.md", "docs/configuration.md", "docs/commands.md", "docs/metrics.md"} {
		data, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mdLink.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
		for _, m := range codePath.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s: %v", page, m[1], err)
			}
		}
	}
}

// TestReadmeKeys holds the README's short table of keys against the code.
func TestReadmeKeys(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| ([^|]*) \\|").FindAllStringSubmatch(string(data), -1)
	if len(rows) < 10 {
		t.Fatalf("only %d keys found", len(rows))
	}
	for _, row := range rows {
		for _, name := range strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ") {
			def := config.BrokerDefinition(name)
			if def == nil {
				t.Errorf("the README names %s, which is no key", name)
				continue
			}
			// A default that is a plain value is the code's; words explain.
			shown := strings.Trim(row[2], "`")
			if _, err := strconv.Atoi(shown); (err == nil || shown == "true" || shown == "false") && shown != def.Default {
				t.Errorf("the README says that %s is %s by default, the code says %s", name, shown, def.Default)
			}
		}
	}
}

func ownKey(name string) bool {
	return strings.HasPrefix(name, "netio.") || strings.HasPrefix(name, "meta.") || strings.HasPrefix(name, "http.")
}

// changes says when a changed broker key is heeded.
var changes = map[config.Update]string{
	config.ReadOnly: "restart", config.PerBroker: "live, per broker", config.ClusterWide: "live",
}

// changedByRestart are keys that clients may change at run time, as in Kafka,
// and that are read at the next start alone.
var changedByRestart = map[string]string{
	"num.recovery.threads.per.data.dir": "restart, file only",
}

func brokerTable(include func(*config.Definition) bool) string {
	var b strings.Builder
	b.WriteString("| key | type | default | change | meaning |\n|---|---|---|---|---|\n")
	for _, name := range config.BrokerNames() {
		def := config.BrokerDefinition(name)
		if def.Internal || !include(def) {
			continue
		}
		change := changes[def.Update]
		if late, ok := changedByRestart[name]; ok {
			change = late
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, strings.ToLower(def.Type.String()), shownDefault(def), change, meaning(def))
	}
	return b.String()
}

func topicTable(inert bool) string {
	var b strings.Builder
	b.WriteString("| key | type | default | broker's default | meaning |\n|---|---|---|---|---|\n")
	for _, name := range config.TopicNames() {
		def := config.TopicDefinition(name)
		if def.Internal || def.Inert != inert {
			continue
		}
		var behind []string
		for _, s := range def.Synonyms {
			behind = append(behind, "`"+s.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, strings.ToLower(def.Type.String()), shownDefault(def), strings.Join(behind, ", "), meaning(def))
	}
	return b.String()
}

func shownDefault(def *config.Definition) string {
	switch {
	case def.Null:
		return "unset"
	case def.Default == "":
		return "empty"
	}
	return "`" + def.Default + "`"
}

// meaning is a key's documentation with what is allowed, fit for a table.
func meaning(def *config.Definition) string {
	text := def.Doc
	if allowed := def.Allowed(); allowed != "" {
		text += " Allowed: " + allowed + "."
	}
	return plain(text)
}

func apiTable() string {
	var b strings.Builder
	b.WriteString("| key | API | served | advertised | flexible from |\n|---|---|---|---|---|\n")
	apis := engine.APIs()
	slices.SortFunc(apis, func(x, y engine.API) int { return int(x.Key) - int(y.Key) })
	for _, a := range apis {
		flexible := fmt.Sprintf("v%d", a.Flexible)
		if a.Flexible > a.Max {
			flexible = "never"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", a.Key, a.Name, versions(a.Min, a.Max), versions(a.AdvertiseMin, a.Max), flexible)
	}
	return b.String()
}

func metricTable() string {
	var b strings.Builder
	b.WriteString("| metric | labels | kind, unit | meaning | look when |\n|---|---|---|---|---|\n")
	for _, m := range metrics.All() {
		fmt.Fprintf(&b, "| `%s` | %s | %s, %s | %s | %s |\n", m.Name, strings.Join(m.Labels, ", "), m.Kind, m.Unit, plain(m.Help), plain(m.Alert))
	}
	return b.String()
}

// plain is text fit for a table.
func plain(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(text)
}

func versions(from, to int16) string {
	if from == to {
		return fmt.Sprintf("v%d", from)
	}
	return fmt.Sprintf("v%d–v%d", from, to)
}
