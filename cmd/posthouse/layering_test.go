package main

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/posthouse/posthouse/"

// Groups of packages that the import table names more than once.
var (
	// level0 are leaves: they import nothing of ours.
	level0 = []string{"storage/record", "storage/vfs", "netio/wire", "engine/config"}
	// anything lets a command reach all of the broker.
	anything = []string{"*"}
)

// imports lists, for each package, the packages of this module that it may
// import. A package that is not listed fails the test: give it a row, and
// with it a place in the layers. Collaborators from a lower row that must
// call upwards do so through a small interface that they declare themselves.
var imports = map[string][]string{
	"storage/record": nil,
	"storage/vfs":    nil,
	"netio/wire":     nil,
	"engine/config":  nil,
	"engine/metrics": nil,

	// The log and the network never meet: a span of a file becomes bytes on
	// a connection in engine alone.
	"storage": {"storage/record", "storage/vfs"},
	"netio":   {"netio/wire"},

	"replication/meta":           level0,
	"replication/meta/metalocal": append([]string{"replication/meta"}, level0...),
	"replication/meta/metatest":  append([]string{"replication/meta"}, level0...),

	// Neither the loop nor a concrete store is known to replication.
	"replication":            append([]string{"storage", "replication/meta"}, level0...),
	"replication/controller": append([]string{"storage", "replication/meta"}, level0...),

	"engine/group/assignor": {"storage/record"},

	"engine/admin": append([]string{"replication/meta"}, level0...),
	"engine/quota": {"replication/meta"},
	"engine/group": append([]string{"replication/meta", "engine/group/assignor"}, level0...),
	"engine": append([]string{
		"storage", "netio", "replication", "replication/meta", "replication/controller", "engine/admin", "engine/quota", "engine/group", "engine/metrics",
	}, level0...),

	// Measuring: the client's side of the network, and what it measured.
	"results/hdr": nil,
	"results":     {"results/hdr"},
	"loadgen":     {"netio", "netio/wire", "storage/record", "results", "results/hdr"},

	"bench":            anything,
	"bench/speedcheck": anything,
	"cmd/broker":       anything,
	"cmd/e2e":          anything,
	"cmd/posthouse":    anything,

	// The client's commands know a broker by its protocol and its files alone.
	"cmd/posthouse/cli":      {"engine/config"},
	"cmd/posthouse/clitest":  {"cmd/broker", "cmd/posthouse/cli", "engine/config"},
	"cmd/posthouse/topics":   {"cmd/posthouse/cli", "storage/record"},
	"cmd/posthouse/configs":  {"cmd/posthouse/cli"},
	"cmd/posthouse/groups":   {"cmd/posthouse/cli"},
	"cmd/posthouse/messages": {"cmd/posthouse/cli"},
	"cmd/posthouse/dump":     {"cmd/posthouse/cli", "storage", "storage/record"},
	"cmd/posthouse/doctor":   {"cmd/posthouse/cli", "engine/config", "netio", "storage/record"},
}

// TestImportOrder holds the layers apart: it reads the imports of every
// package, for both builds, and compares them with the table above.
func TestImportOrder(t *testing.T) {
	for _, tags := range []string{"", "iouring,e2e,golden,invariants"} {
		for _, pkg := range listPackages(t, tags) {
			name := strings.TrimPrefix(pkg.ImportPath, module)
			allowed, known := imports[name]
			if !known {
				t.Errorf("package %s has no row in the import table", name)
				continue
			}
			if slices.Contains(allowed, "*") {
				continue
			}
			for _, imported := range pkg.Imports {
				dependency, ours := strings.CutPrefix(imported, module)
				if ours && !slices.Contains(allowed, dependency) {
					t.Errorf("package %s must not import %s (tags %q)", name, dependency, tags)
				}
			}
		}
	}
}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T, tags string) []listedPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "-tags", tags, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listedPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var pkg listedPackage
		if err := decoder.Decode(&pkg); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatalf("go list output: %v", err)
		}
		packages = append(packages, pkg)
	}
}
