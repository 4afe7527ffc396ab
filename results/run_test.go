package results

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestSchemaPage holds SCHEMA.md and the types together: every JSON name
// stands in the page's part of its type.
func TestSchemaPage(t *testing.T) {
	page, err := os.ReadFile("SCHEMA.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{Set{}, Run{}, Contender{}, Workload{}, Line{}, Usage{}, Client{}, Series{}, Environment{}} {
		kind := reflect.TypeOf(v)
		_, part, found := strings.Cut(string(page), "\n## "+kind.Name()+"\n")
		if !found {
			t.Errorf("SCHEMA.md has no part %s", kind.Name())
			continue
		}
		part, _, _ = strings.Cut(part, "\n## ")
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(part, "`"+name+"`") {
				t.Errorf("SCHEMA.md, %s: nothing of %s", kind.Name(), name)
			}
		}
	}
}
