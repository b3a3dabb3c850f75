package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// surveyed builds a survey of three nodes from the answers of their servers, changed by one JSON document each.
func surveyed(t *testing.T, membership, node3, health3 string) *Survey {
	t.Helper()
	survey := &Survey{}
	read := func(text string, into any) {
		if text == "" {
			return
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	read(`{"leader":1,"voters":[1,2,3],"members":[{"nodeId":1,"live":true,"raft":"a:7400"},{"nodeId":2,"live":true},{"nodeId":3,"live":true,"raft":"c:7400"}]}`, &survey.View)
	if strings.Contains(membership, `"members"`) {
		survey.View.Members = nil // encoding/json would fill the old rows up
	}
	read(membership, &survey.View)
	for id := range uint64(3) {
		survey.Seen.Members = append(survey.Seen.Members, Node{NodeID: id + 1, State: "follower", Reachable: true, Identity: "ok"})
		survey.Health = append(survey.Health, HealthReport{NodeID: id + 1, Status: 200})
	}
	read(node3, &survey.Seen.Members[2])
	if health3 != "" {
		survey.Health[2].Status = 503
		read(health3, &survey.Health[2].Said)
	}
	return survey
}

func TestFindingsNameTheSectionToGoTo(t *testing.T) {
	for name, row := range map[string]struct {
		membership, node3, health3 string
		want                       []string
	}{
		"all well":        {want: nil},
		"no leader":       {membership: `{"leader":null}`, want: []string{"0 no leader is known 5.6"}},
		"plan that waits": {membership: `{"plan":{"id":4,"kind":"promote","target":[2,3],"steps":[{"op":"promote","id":3,"state":"pending"}],"waiting":"learner_behind"}}`, want: []string{"0 a membership plan is under way: promote [2,3], promote 3 pending, waits: learner_behind 5.12"}},
		"renamed host":    {membership: `{"members":[{"nodeId":3,"live":true,"raft":"c:7400","seenRaft":"d:7400"}]}`, want: []string{"3 answers at d:7400, the membership says c:7400 5.10"}},
		"silent member":   {membership: `{"members":[{"nodeId":9}]}`, want: []string{"9 is not heard from 5.2"}},
		"one way":         {membership: `{"members":[{"nodeId":3}]}`, want: []string{"3 is reachable, but the leader does not hear from it 5.2"}},
		"unreachable":     {node3: `{"reachable":false,"state":"unreachable","error":"connection refused"}`, want: []string{"3 is unreachable: connection refused 5.2"}},
		"no word of why":  {node3: `{"reachable":false}`, want: []string{"3 is unreachable 5.2"}},
		"stopped":         {node3: `{"state":"shutdown"}`, want: []string{"3 has stopped 5.4"}},
		"directory lost":  {node3: `{"identity":"replaced"}`, want: []string{"3 has the identity replaced 5.3"}},
		"older directory": {node3: `{"identity":"rolled_back"}`, want: []string{"3 has the identity rolled_back 5.3"}},
		"another cluster": {node3: `{"identity":"foreign"}`, want: []string{"3 has the identity foreign 5.11"}},
		"clock ahead":     {node3: `{"clockSkewMs":251}`, want: []string{"3 has a clock that is off by 251 ms 3.5"}},
		"clock behind":    {node3: `{"clockSkewMs":-900}`, want: []string{"3 has a clock that is off by -900 ms 3.5"}},
		"clock well":      {node3: `{"clockSkewMs":-250}`, want: nil},
		"behind":          {health3: `{"status":"settling","reasons":["lag"]}`, want: []string{"3 is settling: lag 5.2"}},
		"lost majority":   {health3: `{"status":"settling","reasons":["quorum"]}`, want: []string{"3 is settling: quorum 5.6"}},
		"of a group":      {health3: `{"status":"settling","reasons":["g2:no_leader"]}`, want: []string{"3 is settling: g2:no_leader 5.6"}},
		"poisoned entry":  {health3: `{"status":"settling","reasons":["apply_failure"],"raft":{"apply":{"failure":{"class":"deterministic","index":7}}}}`, want: []string{"3 stopped applying at entry 7 (deterministic) 5.9", "3 is settling: apply_failure 5.9"}},
		"damaged disk":    {health3: `{"status":"settling","reasons":["storage"],"raft":{"apply":{"failure":{"class":"node-local","index":7}}}}`, want: []string{"3 stopped applying at entry 7 (node-local) 5.4", "3 is settling: storage 5.4"}},
		"full disk":       {health3: `{"status":"settling","reasons":["lag"],"raft":{"storageFull":true}}`, want: []string{"3 says that a disk of the cluster is full 5.5", "3 is settling: lag 5.2"}},
	} {
		var got []string
		for _, finding := range judge(surveyed(t, row.membership, row.node3, row.health3)) {
			got = append(got, fmt.Sprintf("%d %s %s", finding.NodeID, finding.Text, finding.Section))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestFailedProbeIsAFinding(t *testing.T) {
	survey := surveyed(t, "", "", "")
	survey.Probes = []ProbeReport{{NodeID: 1, Ms: 12}, {NodeID: 2, Ms: 10_000, Error: "no answer"}}
	findings := judge(survey)
	if len(findings) != 1 || findings[0] != (Finding{NodeID: 2, Text: "the probe failed after 10000 ms: no answer", Section: "5.6"}) {
		t.Errorf("findings %+v", findings)
	}
}

func TestSameMembersInAnotherOrderAreTheSame(t *testing.T) {
	one := Membership{Members: []Member{{NodeID: 1, Voter: true, Raft: "a:1"}, {NodeID: 2, Raft: "b:1"}}}
	other := Membership{Term: 9, Members: []Member{{NodeID: 2, Raft: "b:1", Live: true}, {NodeID: 1, Voter: true, Raft: "a:1"}}}
	if !one.Same(&other) {
		t.Error("the order, the term and what is live count")
	}
	for name, change := range map[string]func(*Membership){
		"voter":   func(m *Membership) { m.Members[0].Voter = true },
		"address": func(m *Membership) { m.Members[0].HTTP = "b:2" },
		"member":  func(m *Membership) { m.Members = m.Members[:1] },
	} {
		changed := Membership{Members: slices.Clone(other.Members)}
		change(&changed)
		if one.Same(&changed) {
			t.Errorf("another %s is the same", name)
		}
	}
}
