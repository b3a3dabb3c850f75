package peer

import "testing"

func judgement(by uint64, verdict Verdict) Judgement {
	return Judgement{By: Hello{ClusterID: "c", ClusterEpoch: 1, NodeID: by, LastLogIndex: 9}, Verdict: verdict, Incarnation: "i"}
}

// TestOneAdverseVerdictBinds: cluster 2.6.
func TestOneAdverseVerdictBinds(t *testing.T) {
	foreign := judgement(2, Replaced)
	foreign.By.ClusterID = "other"
	epoch := judgement(2, Replaced)
	epoch.By.ClusterEpoch = 2
	fresh := judgement(2, Replaced)
	fresh.By.ClusterID = ""
	former := judgement(2, Replaced)
	former.Incarnation = "former"
	member, empty := &Hello{ClusterID: "c", ClusterEpoch: 1, NodeID: 1, Incarnation: "i"}, &Hello{NodeID: 1, Incarnation: "i"}
	for name, row := range map[string]struct {
		self *Hello
		said []Judgement
		want Verdict
		by   uint64
	}{
		"nobody has said anything":          {member, nil, OK, 0},
		"all accept":                        {member, []Judgement{judgement(2, OK), judgement(3, OK)}, OK, 0},
		"one of two":                        {member, []Judgement{judgement(2, OK), judgement(3, Replaced)}, Replaced, 3},
		"the first of two":                  {member, []Judgement{judgement(3, RolledBack), judgement(2, RolledBack)}, RolledBack, 2},
		"two verdicts":                      {member, []Judgement{judgement(2, RolledBack), judgement(3, Replaced)}, Replaced, 3},
		"superseded":                        {member, []Judgement{judgement(2, Superseded), judgement(3, RolledBack)}, Superseded, 2},
		"an empty directory":                {empty, []Judgement{judgement(2, Replaced)}, Replaced, 2},
		"unknown, too old, foreign":         {member, []Judgement{judgement(2, Unknown), judgement(3, TooOld), judgement(4, Foreign)}, OK, 0},
		"of another cluster":                {member, []Judgement{foreign}, OK, 0},
		"of another epoch":                  {member, []Judgement{epoch}, OK, 0},
		"of a node that belongs to none":    {member, []Judgement{fresh}, OK, 0},
		"about a directory that is no more": {member, []Judgement{former}, OK, 0},
	} {
		if got, by := Bound(row.self, row.said); got != row.want || by != row.by {
			t.Errorf("%s: %s by %d, want %s by %d", name, got, by, row.want, row.by)
		}
	}
}

func TestVoterWaitsForAMajorityWithItself(t *testing.T) {
	self := &Hello{ClusterID: "c", ClusterEpoch: 1, NodeID: 1, Incarnation: "i"}
	booting := judgement(2, OK)
	booting.By.LastLogIndex = 0
	former := judgement(2, OK)
	former.Incarnation = "former"
	for name, row := range map[string]struct {
		voters []uint64
		said   []Judgement
		want   bool
	}{
		"alone":                   {[]uint64{1}, nil, true},
		"nobody of three":         {[]uint64{1, 2, 3}, nil, false},
		"one of three":            {[]uint64{1, 2, 3}, []Judgement{judgement(3, OK)}, true},
		"one of two":              {[]uint64{1, 2}, []Judgement{judgement(2, OK)}, true},
		"one of five":             {[]uint64{1, 2, 3, 4, 5}, []Judgement{judgement(3, OK)}, false},
		"two of five":             {[]uint64{1, 2, 3, 4, 5}, []Judgement{judgement(3, OK), judgement(5, OK)}, true},
		"a learner":               {[]uint64{1, 2, 3}, []Judgement{judgement(4, OK)}, false},
		"itself":                  {[]uint64{1, 2, 3}, []Judgement{judgement(1, OK)}, false},
		"one that is booting":     {[]uint64{1, 2, 3}, []Judgement{booting}, false},
		"one that says no":        {[]uint64{1, 2, 3}, []Judgement{judgement(2, Unknown)}, false},
		"about another directory": {[]uint64{1, 2, 3}, []Judgement{former}, false},
	} {
		if got := Quorate(self, row.voters, row.said); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestOnlyForeignersAnswer(t *testing.T) {
	self := &Hello{ClusterID: "c", ClusterEpoch: 1, NodeID: 1, Incarnation: "i"}
	for name, row := range map[string]struct {
		self *Hello
		said []Judgement
		want bool
	}{
		"nobody":             {self, nil, false},
		"foreigners":         {self, []Judgement{judgement(2, Foreign), judgement(3, Foreign)}, true},
		"one of its own":     {self, []Judgement{judgement(2, Foreign), judgement(3, OK)}, false},
		"an empty directory": {&Hello{NodeID: 1, Incarnation: "i"}, []Judgement{judgement(2, Foreign)}, false},
	} {
		if got := Estranged(row.self, row.said); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
