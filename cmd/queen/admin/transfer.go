package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Transfer is the answer of a hand-off of leadership (cluster 4.1).
type Transfer struct {
	From uint64          `json:"from"`
	To   uint64          `json:"to"`
	Term uint64          `json:"term"`
	Ms   int64           `json:"ms"` // 0: the target led already
	Raw  json.RawMessage `json:"-"`
}

// TransferTo asks the leader of a group to hand leadership to a voter; 0 leaves the choice to the leader.
func (c *Client) TransferTo(ctx context.Context, to uint64, group int) (Transfer, error) {
	body := map[string]any{}
	if to != 0 {
		body["to"] = to
	}
	if group != 0 {
		body["group"] = group
	}
	raw, err := c.do(ctx, call{method: http.MethodPost, path: basePath + "/transfer", body: body, timed: true})
	if err != nil {
		return Transfer{}, err
	}
	done := Transfer{Raw: raw}
	if err := json.Unmarshal(raw, &done); err != nil {
		return Transfer{}, fmt.Errorf("read answer of the transfer: %w", err)
	}
	return done, nil
}
