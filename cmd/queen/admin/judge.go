package admin

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
)

// Finding is one thing that is not well, and the section of the operations manual to go to.
type Finding struct {
	NodeID  uint64 `json:"nodeId,omitempty"` // 0: the cluster as a whole
	Text    string `json:"text"`
	Section string `json:"section"`
}

// maxClockSkewMs is half the default bound, where the alert QueenClockSkew begins (operations 3.5).
const maxClockSkewMs = 250

// judge lists what is not well, the cluster first, then node by node (operations 5.1).
func judge(survey *Survey) []Finding {
	findings := []Finding{} // never null in JSON
	add := func(node uint64, section, format string, values ...any) {
		findings = append(findings, Finding{NodeID: node, Text: fmt.Sprintf(format, values...), Section: section})
	}
	view := &survey.View
	if view.Leader == nil {
		add(0, "5.6", "no leader is known")
	}
	if view.Plan != nil {
		add(0, "5.12", "a membership plan is under way: %s", view.Plan)
	}
	for _, member := range view.Members {
		id := member.NodeID
		if member.SeenRaft != nil {
			add(id, "5.10", "answers at %s, the membership says %s", *member.SeenRaft, member.Raft)
		}
		if node := survey.Node(id); node != nil {
			judgeNode(node, member.Live, add)
		} else if !member.Live {
			add(id, "5.2", "is not heard from")
		}
		if health := survey.HealthOf(id); health != nil && health.Status != 0 {
			judgeHealth(health, add)
		}
		for _, probe := range survey.Probes {
			if probe.NodeID == id && probe.Error != "" {
				add(id, "5.6", "the probe failed after %d ms: %s", probe.Ms, probe.Error)
			}
		}
	}
	return findings
}

func judgeNode(node *Node, live bool, add func(node uint64, section, format string, values ...any)) {
	switch {
	case !node.Reachable || node.State == "unreachable":
		add(node.NodeID, "5.2", "%s", strings.TrimSuffix("is unreachable: "+node.Error, ": "))
		return
	case node.State == "shutdown":
		add(node.NodeID, "5.4", "%s", strings.TrimSuffix("has stopped: "+node.Error, ": "))
	case !live:
		add(node.NodeID, "5.2", "is reachable, but the leader does not hear from it")
	}
	switch node.Identity {
	case "ok", "":
	case "foreign", "too_old":
		add(node.NodeID, "5.11", "has the identity %s", node.Identity)
	default:
		add(node.NodeID, "5.3", "has the identity %s", node.Identity)
	}
	if node.ClockSkewMs != nil && math.Abs(*node.ClockSkewMs) > maxClockSkewMs {
		add(node.NodeID, "3.5", "has a clock that is off by %.0f ms", *node.ClockSkewMs)
	}
}

func judgeHealth(health *HealthReport, add func(node uint64, section, format string, values ...any)) {
	if failure := health.Said.Raft.Apply.Failure; failure != nil {
		section := "5.9"
		if failure.Class == "node-local" {
			section = "5.4"
		}
		add(health.NodeID, section, "stopped applying at entry %d (%s)", failure.Index, failure.Class)
	}
	if health.Said.Raft.StorageFull {
		add(health.NodeID, "5.5", "says that a disk of the cluster is full")
	}
	if health.Status != http.StatusOK {
		add(health.NodeID, healthSection(health.Said.Reasons), "is %s: %s", health.Said.Status, strings.Join(health.Said.Reasons, ", "))
	}
}

// healthSection picks the procedure by the reasons of /health.
func healthSection(reasons []string) string {
	for _, row := range []struct{ reason, section string }{
		{"identity", "5.3"}, {"apply_failure", "5.9"}, {"storage", "5.4"}, {"encryption", "6.5"},
		{"no_leader", "5.6"}, {"quorum", "5.6"},
	} {
		if slices.ContainsFunc(reasons, func(reason string) bool { return reason == row.reason || strings.HasSuffix(reason, ":"+row.reason) }) {
			return row.section
		}
	}
	return "5.2" // booting, behind or stopping: it needs time
}

// Node returns what the asked node learnt from a member, or nil.
func (s *Survey) Node(id uint64) *Node {
	for i := range s.Seen.Members {
		if s.Seen.Members[i].NodeID == id {
			return &s.Seen.Members[i]
		}
	}
	return nil
}

// HealthOf returns what a member said of itself, or nil.
func (s *Survey) HealthOf(id uint64) *HealthReport {
	for i := range s.Health {
		if s.Health[i].NodeID == id {
			return &s.Health[i]
		}
	}
	return nil
}

// String describes a plan in one line.
func (p *Plan) String() string {
	text := p.Kind
	if len(p.Target) > 0 && string(p.Target) != "null" {
		text += " " + string(p.Target)
	}
	for _, step := range p.Steps {
		text += fmt.Sprintf(", %s %d %s", step.Op, step.ID, step.State)
	}
	if p.Waiting != nil {
		text += ", waits: " + *p.Waiting
	}
	return text
}
