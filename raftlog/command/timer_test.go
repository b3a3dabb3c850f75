package command

import (
	"strings"
	"testing"
)

func TestStatusesHaveTheirNames(t *testing.T) {
	var names []string
	for status := TimerScheduled; status <= TimerAbsent+1; status++ {
		names = append(names, status.String())
	}
	if got := strings.Join(names, " "); got != "scheduled rescheduled cancelled absent unknown" {
		t.Error(got)
	}
}
