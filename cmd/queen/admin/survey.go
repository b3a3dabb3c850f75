package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// nodeTimeout bounds what one node is asked for by its own address, as `queen health` does.
const nodeTimeout = 2 * time.Second

// probeTimeout bounds one write probe: nothing after 10 s means no commit (operations 3.3).
const probeTimeout = 10 * time.Second

// Survey is the state of a cluster as the command shows it. The raw messages are the servers' answers.
type Survey struct {
	Well       bool            `json:"well"`
	Findings   []Finding       `json:"findings"`
	Membership json.RawMessage `json:"membership"`
	Nodes      json.RawMessage `json:"members"`
	Health     []HealthReport  `json:"health"`
	Probes     []ProbeReport   `json:"probes,omitempty"`

	View Membership `json:"-"`
	Seen Nodes      `json:"-"`
}

// HealthReport is what one node said of itself. A node that gave no answer from here has only an error: its raft port may be
// reachable from the other nodes all the same.
type HealthReport struct {
	NodeID uint64          `json:"nodeId"`
	URL    string          `json:"url"`
	Status int             `json:"status,omitempty"`
	Health json.RawMessage `json:"health,omitempty"`
	Error  string          `json:"error,omitempty"`

	Said Health `json:"-"`
}

// ProbeReport is a write through one node.
type ProbeReport struct {
	NodeID uint64 `json:"nodeId"`
	URL    string `json:"url"`
	Ms     int64  `json:"ms"`
	Error  string `json:"error,omitempty"`
}

// SurveyOptions says what to look at beside what every survey does.
type SurveyOptions struct {
	// Probe writes a key through every node (operations 3.3).
	Probe bool
	// Now is the clock of the probes; nil is time.Now.
	Now func() time.Time
}

// Survey asks for the membership, for the nodes, for the health of each, and judges. An error means that no server answers.
func (c *Client) Survey(ctx context.Context, options SurveyOptions) (*Survey, error) {
	membership, err := c.Membership(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the membership: %w", err)
	}
	survey := &Survey{View: membership.Membership, Membership: membership.Raw}
	if survey.Seen, survey.Nodes, err = c.nodes(ctx); err != nil {
		return nil, fmt.Errorf("ask for the nodes: %w", err)
	}
	survey.Health = c.healthOfAll(ctx, &survey.View)
	if options.Probe {
		survey.Probes = c.probeAll(ctx, survey.Health, options.Now)
	}
	survey.Findings = judge(survey)
	survey.Well = len(survey.Findings) == 0
	return survey, nil
}

// healthOfAll asks every member for its health. The servers of the command line are tried first: they are reachable from
// here, which the addresses that the nodes have for each other need not be.
func (c *Client) healthOfAll(ctx context.Context, view *Membership) []HealthReport {
	given := make([]HealthReport, len(c.servers))
	each(len(c.servers), func(i int) { given[i] = c.health(ctx, c.servers[i]) })
	known := map[uint64]HealthReport{}
	for _, report := range given {
		if report.Status != 0 {
			known[report.Said.Raft.NodeID] = report
		}
	}
	reports := make([]HealthReport, len(view.Members))
	each(len(reports), func(i int) {
		member := view.Members[i]
		report, found := known[member.NodeID]
		if !found {
			report = c.health(ctx, &url.URL{Scheme: c.servers[0].Scheme, Host: member.HTTP})
			if report.Status != 0 && report.Said.Raft.NodeID != member.NodeID {
				report = HealthReport{URL: report.URL, Error: fmt.Sprintf("node %d answers there", report.Said.Raft.NodeID)}
			}
		}
		report.NodeID = member.NodeID
		reports[i] = report
	})
	return reports
}

func (c *Client) health(ctx context.Context, server *url.URL) HealthReport {
	report := HealthReport{URL: server.String()}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	body, err := c.ask(ctx, ctx, server, call{method: http.MethodGet, path: "/health", open: true})
	report.Status, report.Health = http.StatusOK, body
	if refusal, refused := errors.AsType[*Refusal](err); refused {
		report.Status, report.Health = refusal.Status, refusal.Body
	} else if err != nil {
		return HealthReport{URL: report.URL, Error: err.Error()}
	}
	if err := json.Unmarshal(report.Health, &report.Said); err != nil {
		return HealthReport{URL: report.URL, Error: fmt.Sprintf("read health: %v", err)}
	}
	return report
}

// probeAll writes the probe key through every node at the address at which its health was asked for.
func (c *Client) probeAll(ctx context.Context, nodes []HealthReport, now func() time.Time) []ProbeReport {
	if now == nil {
		now = time.Now
	}
	reports := make([]ProbeReport, len(nodes))
	each(len(nodes), func(i int) {
		report := ProbeReport{NodeID: nodes[i].NodeID, URL: nodes[i].URL}
		began := now()
		if err := c.probe(ctx, report.URL); err != nil {
			report.Error = err.Error()
		}
		report.Ms = now().Sub(began).Milliseconds()
		reports[i] = report
	})
	return reports
}

func (c *Client) probe(ctx context.Context, address string) error {
	server, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("read address: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err = c.ask(ctx, ctx, server, call{method: http.MethodPut, path: "/api/v1/kv/ops/probe",
		body: map[string]any{"value": "probe", "ttlSeconds": 60}})
	return err
}

// each calls do for 0 to count-1 at the same time and returns when all are done.
func each(count int, do func(i int)) {
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() { do(i) })
	}
	running.Wait()
}
