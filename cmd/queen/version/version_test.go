package version

import (
	"runtime"
	"testing"
)

func TestInfoNamesVersionFormatAndPlatform(t *testing.T) {
	info := Get()
	if info.Version == "" || info.Format != 7 || info.Go != runtime.Version() || info.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("info = %+v", info)
	}
}
