package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// basePath is the `…/` of the specification.
const basePath = "/api/v1/system/raft"

// Membership is the view of the membership routes (cluster 4.1).
type Membership struct {
	NodeID          uint64   `json:"nodeId"`
	Source          string   `json:"source"` // leader or follower
	Leader          *uint64  `json:"leader"`
	Term            uint64   `json:"term"`
	ClusterID       string   `json:"clusterId"`
	ClusterEpoch    uint64   `json:"clusterEpoch"`
	Voters          []uint64 `json:"voters"`
	Learners        []uint64 `json:"learners"`
	MembershipIndex uint64   `json:"membershipIndex"`
	Plan            *Plan    `json:"plan"`
	Members         []Member `json:"members"`
}

// Member is one node of the membership. What the answering node does not know is nil.
type Member struct {
	NodeID    uint64   `json:"nodeId"`
	Voter     bool     `json:"voter"`
	Raft      string   `json:"raft"`
	HTTP      string   `json:"http"`
	Matched   *uint64  `json:"matched"`
	Lag       *uint64  `json:"lag"` // entries
	LastAckMs *int64   `json:"lastAckMs"`
	Live      bool     `json:"live"`
	Identity  string   `json:"identity"`
	DiskPct   *float64 `json:"diskPct"`
	SeenRaft  *string  `json:"seenRaft"`
}

// Plan is a change that is under way (cluster 4.4).
type Plan struct {
	ID      json.RawMessage `json:"id"`
	Kind    string          `json:"kind"`
	Target  json.RawMessage `json:"target"`
	Steps   []Step          `json:"steps"`
	Waiting *string         `json:"waiting"`
}

// Step is one change of one server within a plan.
type Step struct {
	Op    string `json:"op"`
	ID    uint64 `json:"id"`
	State string `json:"state"` // pending, running or done
}

// Same tells whether two views name the same members at the same addresses.
func (m *Membership) Same(other *Membership) bool {
	key := func(view *Membership) []string {
		rows := make([]string, len(view.Members))
		for i, member := range view.Members {
			rows[i] = fmt.Sprintf("%d %t %s %s", member.NodeID, member.Voter, member.Raft, member.HTTP)
		}
		slices.Sort(rows)
		return rows
	}
	return slices.Equal(key(m), key(other))
}

// Changed is the answer of a change: the membership after it, and the answer as it came.
type Changed struct {
	Membership Membership
	Raw        json.RawMessage
	// Anew says that a member was replaced, though the membership may be the same.
	Anew bool
}

// Membership asks for the view of whichever server answers. Without a leader it is that server's own.
func (c *Client) Membership(ctx context.Context) (Changed, error) {
	return c.change(ctx, http.MethodGet, "/membership", nil)
}

// AddLearner adds a node that receives the log and does not vote. Both addresses are required; Force means nothing here.
func (c *Client) AddLearner(ctx context.Context, id uint64, at Address) (Changed, error) {
	return c.change(ctx, http.MethodPost, "/membership/learners", map[string]any{"id": id, "raft": at.Raft, "http": at.HTTP})
}

// AddLearnerWhenUp adds a node that may not run yet: it repeats while ctx lasts and the cluster says that nobody answers.
func (c *Client) AddLearnerWhenUp(ctx context.Context, id uint64, at Address) (Changed, error) {
	for {
		changed, err := c.AddLearner(ctx, id, at)
		refusal, refused := errors.AsType[*Refusal](err)
		if !refused || refusal.Code != "retry" || c.options.Pause(ctx, promoteAgainAfter) != nil {
			return changed, err
		}
	}
}

// Promote makes learners voters.
func (c *Client) Promote(ctx context.Context, ids []uint64) (Changed, error) {
	return c.change(ctx, http.MethodPost, "/membership/promote", map[string]any{"ids": ids})
}

// promoteAgainAfter is the pause between two tries of PromoteWhenCaughtUp. The server itself waits for up to 10 s.
const promoteAgainAfter = time.Second

// PromoteWhenCaughtUp promotes a learner that may still be far behind: it repeats while ctx lasts and the cluster says so.
func (c *Client) PromoteWhenCaughtUp(ctx context.Context, id uint64) (Changed, error) {
	for {
		changed, err := c.Promote(ctx, []uint64{id})
		refusal, refused := errors.AsType[*Refusal](err)
		if !refused || refusal.Code != "learner_behind" {
			return changed, err
		}
		if c.options.Pause(ctx, promoteAgainAfter) != nil {
			return changed, err
		}
	}
}

// SetVoters makes exactly these nodes the voters.
func (c *Client) SetVoters(ctx context.Context, ids []uint64) (Changed, error) {
	return c.change(ctx, http.MethodPut, "/membership/voters", map[string]any{"voters": ids})
}

// Remove takes a node out of the membership.
func (c *Client) Remove(ctx context.Context, id uint64) (Changed, error) {
	return c.change(ctx, http.MethodDelete, memberPath(id), nil)
}

// Replace has a member empty its directory and return as a voter. It waits for all of that.
func (c *Client) Replace(ctx context.Context, id uint64) (Changed, error) {
	changed, err := c.change(ctx, http.MethodPost, "/membership/replace", map[string]any{"id": id})
	changed.Anew = err == nil
	return changed, err
}

// Address is where a member is reached, as host:port.
type Address struct {
	Raft, HTTP string
	// Force records a raft address at which nobody with that identity answers.
	Force bool
}

// RecordAddress writes new addresses of a member into the membership; an empty one stays as it is.
func (c *Client) RecordAddress(ctx context.Context, id uint64, to Address) (Changed, error) {
	body := map[string]any{}
	if to.Raft != "" {
		body["raft"] = to.Raft
	}
	if to.HTTP != "" {
		body["http"] = to.HTTP
	}
	if to.Force {
		body["force"] = true
	}
	return c.change(ctx, http.MethodPut, memberPath(id), body)
}

func memberPath(id uint64) string { return "/membership/members/" + strconv.FormatUint(id, 10) }

func (c *Client) change(ctx context.Context, method, path string, body any) (Changed, error) {
	raw, err := c.do(ctx, call{method: method, path: basePath + path, body: body, timed: true})
	if err != nil {
		return Changed{}, err
	}
	var answer struct {
		Membership *Membership `json:"membership"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Membership == nil {
		return Changed{}, fmt.Errorf("read membership: this is not the answer of a Queen node: %w", errors.Join(err, errNoMembership))
	}
	return Changed{Membership: *answer.Membership, Raw: raw}, nil
}

var errNoMembership = errors.New("it holds no membership")
