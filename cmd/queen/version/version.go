// Package version says which build of Queen this is. It is the only place that knows: `queen version`, /health, the
// build metric and the handshake all ask here.
package version

import (
	"runtime"
	"runtime/debug"

	"queen/raftlog/command"
)

// number is the release. A release build sets it with -ldflags "-X queen/cmd/queen/version.number=1.2.3".
var number = "1.0.0"

// Format is the newest format that this build reads, `kinds` in /health (cluster 15.2).
const Format = command.FormatVersion

// Info describes a build.
type Info struct {
	Version  string `json:"version"`
	Format   int    `json:"format"`
	Revision string `json:"revision,omitempty"` // the commit; empty for a build outside a clone
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get reads the description that the Go tool put into the binary.
func Get() Info {
	info := Info{Version: number, Format: Format, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, found := debug.ReadBuildInfo()
	if !found {
		return info
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}
