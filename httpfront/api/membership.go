package api

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"queen/httpfront"
	"queen/raftlog/command"
	"queen/raftlog/membership"
)

// Membership answers a request about the membership, or hands leadership over (cluster 4, 5.4), until ctx ends.
type Membership func(ctx context.Context, r membership.Request) membership.Answer

// membershipBody are the fields of all bodies of the membership routes.
type membershipBody struct {
	ID        *uint64  `json:"id"`
	NodeID    *uint64  `json:"nodeId"`
	IDs       []uint64 `json:"ids"`
	Voter     *uint64  `json:"voter"`
	Voters    []uint64 `json:"voters"`
	Raft      string   `json:"raft"`
	HTTP      string   `json:"http"`
	To        uint64   `json:"to"`
	Group     int      `json:"group"`
	Force     bool     `json:"force"`
	TimeoutMs *int64   `json:"timeoutMs"`
}

// membership answers GET …/membership.
func (a *API) membership(r *httpfront.Request) error {
	return a.askMembership(r, membership.Request{Call: membership.CallView}, func(*membershipBody, *membership.Request) *membership.Refusal { return nil })
}

// addLearner answers POST …/membership/learners.
func (a *API) addLearner(r *httpfront.Request) error {
	return a.change(r, command.PlanLearner, func(body *membershipBody, request *membership.Request) *membership.Refusal {
		request.Raft, request.HTTP = body.Raft, body.HTTP
		return body.node(request)
	})
}

// replaceMember answers POST …/membership/replace: a member empties its directory and is fed anew (cluster 2.6, on demand).
func (a *API) replaceMember(r *httpfront.Request) error {
	return a.change(r, command.PlanRejoin, (*membershipBody).node)
}

// node takes over the id that a body names.
func (b *membershipBody) node(request *membership.Request) *membership.Refusal {
	if b.ID == nil {
		b.ID = b.NodeID
	}
	if b.ID == nil {
		return membership.Refuse(membership.BadRequest, "id is missing")
	}
	request.Node = *b.ID
	return nil
}

// promote answers POST …/membership/promote.
func (a *API) promote(r *httpfront.Request) error {
	return a.change(r, command.PlanPromote, func(body *membershipBody, request *membership.Request) *membership.Refusal {
		request.Nodes = body.IDs
		if body.ID != nil {
			request.Nodes = append(request.Nodes, *body.ID)
		}
		return nil
	})
}

// setVoters answers PUT …/membership/voters.
func (a *API) setVoters(r *httpfront.Request) error {
	return a.change(r, command.PlanVoters, func(body *membershipBody, request *membership.Request) *membership.Refusal {
		request.Nodes = body.Voters
		if body.Voter != nil {
			request.Nodes = append(request.Nodes, *body.Voter)
		}
		return nil
	})
}

// setAddress answers PUT …/membership/members/:id.
func (a *API) setAddress(r *httpfront.Request) error {
	return a.change(r, command.PlanAddress, func(body *membershipBody, request *membership.Request) *membership.Refusal {
		request.Raft, request.HTTP = body.Raft, body.HTTP
		return memberParam(r, request)
	})
}

// removeMember answers DELETE …/membership/members/:id.
func (a *API) removeMember(r *httpfront.Request) error {
	return a.change(r, command.PlanRemove, func(_ *membershipBody, request *membership.Request) *membership.Refusal {
		return memberParam(r, request)
	})
}

func memberParam(r *httpfront.Request, request *membership.Request) *membership.Refusal {
	id, err := strconv.ParseUint(r.Param("id"), 10, 64)
	if err != nil {
		return membership.Refuse(membership.BadRequest, "node %.40q: an id is a whole number", r.Param("id"))
	}
	request.Node = id
	return nil
}

// transfer answers POST …/transfer.
func (a *API) transfer(r *httpfront.Request) error {
	return a.askMembership(r, membership.Request{Call: membership.CallTransfer}, func(body *membershipBody, request *membership.Request) *membership.Refusal {
		if body.Group != 0 {
			return membership.Refuse(membership.BadRequest, "there is no group %d", body.Group)
		}
		request.Node = body.To
		return nil
	})
}

func (a *API) change(r *httpfront.Request, kind command.PlanKind, fill func(*membershipBody, *membership.Request) *membership.Refusal) error {
	return a.askMembership(r, membership.Request{Call: membership.CallChange, Kind: kind}, fill)
}

// askMembership answers a route: fill completes the request from the body and the path.
func (a *API) askMembership(r *httpfront.Request, request membership.Request, fill func(*membershipBody, *membership.Request) *membership.Refusal) error {
	if r.NamesTenant() {
		return answerMembership(r, membership.Refuse(membership.Forbidden, "administration routes are not for tenants").Answer())
	}
	request.ID, request.By = membership.Draw(), r.Subject
	limit, refusal := readMembership(r, &request, fill)
	if refusal != nil {
		return answerMembership(r, refusal.Answer())
	}
	ctx, cancel := context.WithDeadline(context.Background(), r.Arrived.Add(limit))
	defer cancel()
	return answerMembership(r, a.config.Membership(ctx, request))
}

// readMembership reads body and query.
func readMembership(r *httpfront.Request, request *membership.Request, fill func(*membershipBody, *membership.Request) *membership.Refusal) (time.Duration, *membership.Refusal) {
	var body membershipBody
	if content := bytes.TrimSpace(r.Body()); len(content) > 0 {
		if err := json.Unmarshal(content, &body); err != nil {
			return 0, membership.Refuse(membership.BadRequest, "the body is not what the route takes: %v", err)
		}
	}
	force, given, err := r.QueryBool("force")
	if err != nil {
		return 0, membership.Refuse(membership.BadRequest, "%v", err)
	}
	request.Force = given && force || body.Force
	ms := membership.DefaultTimeout.Milliseconds()
	if body.TimeoutMs != nil {
		ms = *body.TimeoutMs
	}
	if ms, err = r.QueryInt("timeoutMs", ms); err != nil {
		return 0, membership.Refuse(membership.BadRequest, "%v", err)
	}
	if ms < 1 || ms > membership.MaxTimeout.Milliseconds() {
		return 0, membership.Refuse(membership.BadRequest, "timeoutMs must be from 1 to %d", membership.MaxTimeout.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, fill(&body, request)
}

func answerMembership(r *httpfront.Request, answer membership.Answer) error {
	if answer.Status == 503 {
		r.Ctx.Response.Header.Set("Retry-After", "1")
	}
	r.JSONOwned(answer.Status, answer.Body)
	return nil
}
