package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"

	"queen/chaos/contract/harness"
)

// membershipPath is the stem of the membership routes (cluster.md 4.1).
const membershipPath = "/api/v1/system/raft/membership"

// View is the membership as a node shows it.
type View struct {
	Source          string          `json:"source"`
	Leader          uint64          `json:"leader"` // 0 when it knows none
	Term            uint64          `json:"term"`
	Voters          []uint64        `json:"voters"`
	Learners        []uint64        `json:"learners"`
	Plan            json.RawMessage `json:"plan"`
	LastLogIndex    uint64          `json:"lastLogIndex"`
	CommittedIndex  uint64          `json:"committedIndex"`
	MembershipIndex uint64          `json:"membershipIndex"`
	Members         []struct {
		NodeID   uint64 `json:"nodeId"`
		Voter    bool   `json:"voter"`
		Raft     string `json:"raft"`
		HTTP     string `json:"http"`
		Live     bool   `json:"live"`
		Identity string `json:"identity"`
		// SeenRaft is where it was reached, when that is another address.
		SeenRaft string `json:"seenRaft"`
	} `json:"members"`
}

// Pending tells whether a plan is under way.
func (v View) Pending() bool { return len(v.Plan) > 0 && string(v.Plan) != "null" }

// Membership asks a node for the membership.
func (n *Node) Membership() (View, error) {
	reply := n.Client().Get(membershipPath)
	var answer struct {
		Membership View `json:"membership"`
	}
	if reply.Err != nil || reply.Status != http.StatusOK {
		return View{}, fmt.Errorf("membership through node %d: %v", n.ID, reply)
	}
	if err := reply.Decode(&answer); err != nil {
		return View{}, fmt.Errorf("membership through node %d: %w", n.ID, err)
	}
	return answer.Membership, nil
}

// Change is one request to a membership route.
type Change struct {
	Method string
	Path   string // behind membershipPath
	Body   map[string]any
}

// AddLearner adds a node that waits to be added.
func (c *Cluster) AddLearner(id uint64) Change {
	node := c.Node(id)
	return Change{http.MethodPost, "/learners", map[string]any{"id": id, "raft": c.Network.Address(id), "http": node.broker.Address()}}
}

// Promote makes learners voters.
func Promote(ids ...uint64) Change {
	return Change{http.MethodPost, "/promote", map[string]any{"ids": ids}}
}

// SetVoters gives the whole voter set.
func SetVoters(ids ...uint64) Change {
	return Change{http.MethodPut, "/voters", map[string]any{"voters": ids}}
}

// Remove takes a member out.
func Remove(id uint64) Change {
	return Change{Method: http.MethodDelete, Path: fmt.Sprintf("/members/%d", id)}
}

// Replace has a member return with an empty directory.
func Replace(id uint64) Change {
	return Change{http.MethodPost, "/replace", map[string]any{"id": id}}
}

// SetHTTP records another HTTP address of a member.
func SetHTTP(id uint64, address string) Change {
	return Change{http.MethodPut, fmt.Sprintf("/members/%d", id), map[string]any{"http": address}}
}

// SetRaft records where a member is found now.
func (c *Cluster) SetRaft(id uint64) Change {
	return Change{http.MethodPut, fmt.Sprintf("/members/%d", id), map[string]any{"raft": c.Network.Address(id)}}
}

// Apply sends a change through a node and returns its answer, whatever it is.
func (n *Node) Apply(change Change) harness.Response {
	request := harness.Request{Method: change.Method, Path: membershipPath + change.Path}
	if change.Body != nil {
		body, err := json.Marshal(change.Body)
		if err != nil {
			return harness.Response{Err: fmt.Errorf("encode change: %w", err)}
		}
		request.Body = body
	}
	return n.Client().Do(request)
}

// String shows a change for messages.
func (c Change) String() string {
	body, err := json.Marshal(c.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s %s", c.Method, c.Path, body)
}

// Transferred is the answer to a transfer of leadership (cluster.md 5.4).
type Transferred struct {
	harness.Response `json:"-"`
	OK               bool   `json:"ok"`
	From             uint64 `json:"from"`
	To               uint64 `json:"to"`
	Term             uint64 `json:"term"`
	Ms               int64  `json:"ms"`
	Code             string `json:"code"`
}

// Transfer asks through this node that leadership moves; to 0 leaves the choice to the leader.
func (n *Node) Transfer(to uint64) Transferred {
	body := map[string]any{}
	if to != 0 {
		body["to"] = to
	}
	reply := Transferred{Response: n.Client().Post("/api/v1/system/raft/transfer", body)}
	if reply.Err == nil {
		reply.Err = reply.Decode(&reply)
	}
	return reply
}
