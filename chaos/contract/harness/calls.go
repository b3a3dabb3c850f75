package harness

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Item is one pushed message (messaging.md 4.1). Empty optional fields are not sent; a test that needs them sent as
// "" or null posts the JSON itself.
type Item struct {
	Queue         string `json:"queue"`
	Partition     string `json:"partition,omitempty"`
	Payload       any    `json:"payload"`
	TransactionID string `json:"transactionId,omitempty"`
	TraceID       string `json:"traceId,omitempty"`
}

// Pushed is one verdict of a push (messaging.md 4.2). Offset is nil when the answer has none.
type Pushed struct {
	Index         int    `json:"index"`
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	QueueName     string `json:"queueName"`
	Status        string `json:"status"`
	Offset        *int64 `json:"offset"`
	Error         string `json:"error"`
}

// PushReply is the answer of a push; Items is filled on 201.
type PushReply struct {
	Response
	Items []Pushed
}

// Message is one delivered message (messaging.md 5.3).
type Message struct {
	ID              string          `json:"id"`
	TransactionID   string          `json:"transactionId"`
	TraceID         *string         `json:"traceId"`
	Data            json.RawMessage `json:"data"`
	ProducerSub     *string         `json:"producerSub"`
	CreatedAt       time.Time       `json:"createdAt"`
	PartitionID     string          `json:"partitionId"`
	Partition       string          `json:"partition"`
	LeaseID         string          `json:"leaseId"`
	ConsumerGroup   string          `json:"consumerGroup"`
	DeliveryAttempt int             `json:"deliveryAttempt"`
	Offset          int64           `json:"offset"`
	DecryptError    bool            `json:"decryptError"`
}

// PopReply is the answer of a pop; the fields beside Response are filled on 200.
type PopReply struct {
	Response           `json:"-"`
	Success            bool      `json:"success"`
	Queue              string    `json:"queue"`
	Partition          string    `json:"partition"`
	PartitionID        string    `json:"partitionId"`
	LeaseID            string    `json:"leaseId"`
	ConsumerGroup      string    `json:"consumerGroup"`
	Messages           []Message `json:"messages"`
	PartitionsClaimed  int       `json:"partitionsClaimed"`
	Conflation         *bool     `json:"conflation"`
	ConflationConflict *bool     `json:"conflationConflict"`
	Autopilot          *struct {
		Partitions *int `json:"partitions"`
		Batch      *int `json:"batch"`
	} `json:"autopilot"`
}

// TransactionIDs lists the txids of the delivered messages in the order of delivery.
func (p PopReply) TransactionIDs() []string {
	ids := make([]string, 0, len(p.Messages))
	for _, message := range p.Messages {
		ids = append(ids, message.TransactionID)
	}
	return ids
}

// AckItem is one item of an ack (messaging.md 6.1). Empty optional fields are not sent.
type AckItem struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	Status        string `json:"status,omitempty"`
	LeaseID       string `json:"leaseId,omitempty"`
	Error         string `json:"error,omitempty"`
}

// Acked is one verdict of an ack (messaging.md 6.3). Error is nil when it is null.
type Acked struct {
	Index         int     `json:"index"`
	TransactionID string  `json:"transactionId"`
	Success       bool    `json:"success"`
	Error         *string `json:"error"`
	LeaseReleased bool    `json:"leaseReleased"`
	DLQ           bool    `json:"dlq"`
	Noop          bool    `json:"noop"`
}

// AckReply is the answer of an ack; Items is filled on 200.
type AckReply struct {
	Response
	Items []Acked
}

// ExtendReply is the answer of a lease extend (messaging.md section 7).
type ExtendReply struct {
	Response        `json:"-"`
	LeaseID         string     `json:"leaseId"`
	Success         bool       `json:"success"`
	Renewed         int        `json:"renewed"`
	NewExpiresAt    *time.Time `json:"newExpiresAt"`
	ExpiresAt       *time.Time `json:"expiresAt"`
	LeaseExpiresAtS *time.Time `json:"lease_expires_at"`
}

// TransactionResult is one element of results (messaging.md 8.3). Nil and empty mean that the member is absent.
type TransactionResult struct {
	Index         int     `json:"index"`
	Type          string  `json:"type"`
	Success       bool    `json:"success"`
	TransactionID string  `json:"transactionId"`
	MessageID     string  `json:"messageId"`
	QueueName     string  `json:"queueName"`
	Error         *string `json:"error"`
	DLQ           bool    `json:"dlq"`
	Duplicate     bool    `json:"duplicate"`
	OpIndex       *int    `json:"opIndex"`
}

// TransactionReply is the answer of a transaction; the fields beside Response are filled on 200.
type TransactionReply struct {
	Response      `json:"-"`
	TransactionID string              `json:"transactionId"`
	Success       bool                `json:"success"`
	Reason        string              `json:"reason"`
	Error         string              `json:"error"`
	Results       []TransactionResult `json:"results"`
}

// Push sends POST /api/v1/push.
func (c *Client) Push(items ...Item) PushReply {
	if items == nil {
		items = []Item{}
	}
	return c.PushBody(map[string]any{"items": items})
}

// PushBody is Push with a body of the test's own making, as Post takes it.
func (c *Client) PushBody(body any) PushReply {
	reply := PushReply{Response: c.Post("/api/v1/push", body)}
	decodeOn(&reply.Response, http.StatusCreated, &reply.Items)
	return reply
}

// Pop sends the wildcard pop of a queue. The query is the raw query string without its question mark.
func (c *Client) Pop(queue, query string) PopReply {
	return c.PopContext(context.Background(), queue, query)
}

// PopContext is Pop by a client that leaves when the context ends.
func (c *Client) PopContext(ctx context.Context, queue, query string) PopReply {
	return c.popPath(ctx, "/api/v1/pop/queue/"+url.PathEscape(queue), query)
}

// PopPartition sends the pinned pop of a partition.
func (c *Client) PopPartition(queue, partition, query string) PopReply {
	return c.PopPartitionContext(context.Background(), queue, partition, query)
}

// PopPartitionContext is PopPartition by a client that leaves when the context ends.
func (c *Client) PopPartitionContext(ctx context.Context, queue, partition, query string) PopReply {
	return c.popPath(ctx, "/api/v1/pop/queue/"+url.PathEscape(queue)+"/partition/"+url.PathEscape(partition), query)
}

// Discover sends the discovery pop.
func (c *Client) Discover(query string) PopReply {
	return c.popPath(context.Background(), "/api/v1/pop", query)
}

func (c *Client) popPath(ctx context.Context, path, query string) PopReply {
	if query != "" {
		path += "?" + query
	}
	reply := PopReply{Response: c.DoContext(ctx, Request{Method: http.MethodGet, Path: path})}
	decodeOn(&reply.Response, http.StatusOK, &reply)
	return reply
}

// Ack sends POST /api/v1/ack with one item; group "" is queue mode and is not sent.
func (c *Client) Ack(group string, item AckItem) AckReply {
	body := struct {
		AckItem
		ConsumerGroup string `json:"consumerGroup,omitempty"`
	}{item, group}
	return c.AckBody("/api/v1/ack", body)
}

// AckBatch sends POST /api/v1/ack/batch; group "" is queue mode and is not sent.
func (c *Client) AckBatch(group string, items ...AckItem) AckReply {
	body := struct {
		Acknowledgments []AckItem `json:"acknowledgments"`
		ConsumerGroup   string    `json:"consumerGroup,omitempty"`
	}{items, group}
	return c.AckBody("/api/v1/ack/batch", body)
}

// AckMessages acks delivered messages in one call, each under its own lease and with one status ("" is not sent). The
// group is that of the first message.
func (c *Client) AckMessages(status string, messages ...Message) AckReply {
	items := make([]AckItem, 0, len(messages))
	for _, message := range messages {
		items = append(items, message.Ack(status))
	}
	return c.AckBatch(messages[0].ConsumerGroup, items...)
}

// Ack makes the ack item of a delivered message, under the lease it came with.
func (m Message) Ack(status string) AckItem {
	return AckItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: status}
}

// AckBody sends a body of the test's own making to one of the two ack routes.
func (c *Client) AckBody(path string, body any) AckReply {
	reply := AckReply{Response: c.Post(path, body)}
	decodeOn(&reply.Response, http.StatusOK, &reply.Items)
	return reply
}

// Extend sends POST /api/v1/lease/:leaseId/extend with a body as Post takes it.
func (c *Client) Extend(leaseID string, body any) ExtendReply {
	reply := ExtendReply{Response: c.Post("/api/v1/lease/"+url.PathEscape(leaseID)+"/extend", body)}
	decodeOn(&reply.Response, http.StatusOK, &reply)
	return reply
}

// Transaction sends POST /api/v1/transaction with a body as Post takes it.
func (c *Client) Transaction(body any) TransactionReply {
	reply := TransactionReply{Response: c.Post("/api/v1/transaction", body)}
	decodeOn(&reply.Response, http.StatusOK, &reply)
	return reply
}

// Configure sends POST /api/v1/configure with the options of a queue; nil sends no options member.
func (c *Client) Configure(queue string, options map[string]any) Response {
	body := map[string]any{"queue": queue}
	if options != nil {
		body["options"] = options
	}
	return c.Post("/api/v1/configure", body)
}

// DeleteQueue sends DELETE /api/v1/resources/queues/:queue.
func (c *Client) DeleteQueue(queue string) Response {
	return c.Delete("/api/v1/resources/queues/" + url.PathEscape(queue))
}

// decodeOn decodes the body of an answer with the expected status; a body of another shape becomes the reply's Err.
func decodeOn(response *Response, status int, into any) {
	if response.Err != nil || response.Status != status {
		return
	}
	if err := response.Decode(into); err != nil {
		response.Err = err
	}
}
