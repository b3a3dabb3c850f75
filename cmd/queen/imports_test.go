package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// importRules is the table of the architecture, section 2: who may import whom inside the module. A folder may always import
// its own sub-folders.
var importRules = []struct {
	folder string // the longest match counts
	may    []string
}{
	{"raftlog/command", nil},
	{"raftlog/identity", nil},
	{"raftlog/peer", []string{"raftlog/identity"}},
	{"raftlog/formation", []string{"raftlog/identity", "raftlog/peer"}},
	{"raftlog", []string{"raftlog/command"}},
	{"store", nil},
	{"actors", []string{"actors", "raftlog/command", "store"}},
	{"httpfront", []string{"httpfront", "actors", "raftlog"}},
	{"chaos", []string{"chaos", "httpfront/wire"}},
	{"cmd", []string{"cmd", "httpfront", "actors", "raftlog", "store"}},
}

// within tells whether a package lies in a folder of the module.
func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// testSupport is imported by tests only, whose imports are not judged.
const testSupport = "actors/machine/rowtest"

// allowedImport judges one edge between two packages of the module, both without its name.
func allowedImport(from, to string) bool {
	if within(to, testSupport) {
		return false
	}
	for _, rule := range importRules {
		if !within(from, rule.folder) {
			continue
		}
		for _, folder := range append([]string{rule.folder}, rule.may...) {
			if within(to, folder) {
				return true
			}
		}
		return false
	}
	return false
}

func TestImportsPointOneWay(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", "queen/...")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	packages := 0
	for decoder := json.NewDecoder(output); ; packages++ {
		var listed struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(listed.ImportPath, "queen/")
		for _, path := range listed.Imports {
			if to, ours := strings.CutPrefix(path, "queen/"); ours && !allowedImport(from, to) {
				t.Errorf("%s imports %s: architecture 2 does not allow that", from, to)
			}
		}
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	if packages == 0 {
		t.Error("go list found no packages")
	}
}

func TestImportRules(t *testing.T) {
	for edge, want := range map[[2]string]bool{
		{"cmd/queen", "raftlog"}:                  true,
		{"cmd/queen", "cmd/queen/config"}:         true,
		{"cmd/queen", "chaos"}:                    false,
		{"httpfront", "actors"}:                   true,
		{"httpfront", "httpfront/wire"}:           true,
		{"httpfront", "raftlog/command"}:          true,
		{"httpfront", "store"}:                    false,
		{"httpfront/wire", "cmd/queen"}:           false,
		{"actors", "actors/machine"}:              true,
		{"actors/machine", "raftlog/command"}:     true,
		{"actors", "store/layout"}:                true,
		{"actors/machine/kv", testSupport}:        false,
		{"actors", "raftlog"}:                     false,
		{"actors", "httpfront"}:                   false,
		{"raftlog", "raftlog/command"}:            true,
		{"raftlog", "raftlog/transport"}:          true,
		{"raftlog", "raftlog/peer"}:               true,
		{"raftlog/peer", "raftlog/identity"}:      true,
		{"raftlog/peer", "raftlog/formation"}:     false,
		{"raftlog/peer", "raftlog"}:               false,
		{"raftlog/identity", "raftlog/peer"}:      false,
		{"raftlog/formation", "raftlog/peer"}:     true,
		{"raftlog/formation", "raftlog/command"}:  false,
		{"raftlog", "actors"}:                     false,
		{"raftlog", "store"}:                      false,
		{"raftlog/command", "raftlog"}:            false,
		{"raftlog/command", "store"}:              false,
		{"store", "store/layout"}:                 true,
		{"store", "raftlog/command"}:              false,
		{"chaos", "httpfront/wire"}:               true,
		{"chaos/harness", "chaos"}:                true,
		{"chaos", "httpfront"}:                    false,
		{"chaos", "store"}:                        false,
		{"somewhere", "store"}:                    false,
		{"storefront", "store"}:                   false,
		{"actors/machine", "raftlog/commandline"}: false,
	} {
		if got := allowedImport(edge[0], edge[1]); got != want {
			t.Errorf("%s imports %s: allowed = %v, want %v", edge[0], edge[1], got, want)
		}
	}
}
