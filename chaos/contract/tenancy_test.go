package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

const (
	defaultTenant = "00000000-0000-0000-0000-000000000001"
	otherTenant   = "7d9f0c7e-6a57-4b0e-9d38-1f2b3c4d5e6f"
	refusedTenant = `{"error":"invalid x-queen-tenant header (must be a UUID)"}`
)

// 2.5: a proxy that is confirmed is not enough, and the header without one stops the start (cluster 1.1).
func TestTenantHeaderNeedsBothSettings_2_5(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_KV_TRUSTED_PROXY": "true"}).Client()
	pushOne(t, client.WithTenant(otherTenant), harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	needMessages(t, client.Pop("q", ""), "t")
	result := runQueen(t, map[string]string{"QUEEN_TENANCY_HEADER": "true", "QUEEN_RAFT_DIR": t.TempDir() + "/data", "PORT": "1"}, "serve")
	if result.code != 1 || !strings.Contains(result.stderr, `FATAL: QUEEN_TENANCY_HEADER="true": want QUEEN_KV_TRUSTED_PROXY=true`) {
		t.Errorf("got %+v", result)
	}
}

func TestTenantHeaderIsIgnoredUnlessEnabled_2_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for i, header := range []string{otherTenant, "not a uuid", ""} {
		client := suite.client.WithTenant(header)
		pushOne(t, client, numbered(queue, "", header, 1)[0])
		popped := suite.client.Pop(queue, "commitOnDelivery=true")
		needMessageCount(t, popped, 1)
		if popped.Messages[0].Offset != int64(i) {
			t.Fatalf("want the queue of the default tenant, got offset %d", popped.Messages[0].Offset)
		}
	}
}

// tenancyBroker reads the header; its client speaks for the default tenant.
func tenancyBroker(t *testing.T) *harness.Client {
	t.Helper()
	return privateBroker(t, map[string]string{"QUEEN_TENANCY_HEADER": "true", "QUEEN_KV_TRUSTED_PROXY": "true"}).Client()
}

func TestTenantsDoNotSeeEachOther_2_5(t *testing.T) {
	t.Parallel()
	plain := tenancyBroker(t)
	other := plain.WithTenant(otherTenant)
	item := harness.Item{Queue: "q", Payload: "default", TransactionID: "t"}
	first := pushOne(t, plain, item)
	need(t, other.Get("/api/v1/resources/queues/q"), 404)
	item.Payload = "other"
	theirFirst := pushOne(t, other, item)

	t.Run("a value that is no UUID is refused", func(t *testing.T) {
		for _, value := range []string{"nope", "7d9f0c7e", strings.Repeat("0", 64)} {
			answer := plain.WithTenant(value).Push(item)
			needBody(t, answer.Response, 400, refusedTenant)
		}
	})
	t.Run("with the same body on routes whose refusals have another shape", func(t *testing.T) {
		nobody := plain.WithTenant("nope")
		needBody(t, nobody.Pop("q", "").Response, 400, refusedTenant)
		needBody(t, nobody.Post("/api/v1/fetch", `{"entries":[]}`), 400, refusedTenant)
		needBody(t, nobody.Post(groupPath("g", "/queues/q/seek"), `{}`), 400, refusedTenant)
		needBody(t, nobody.Get("/api/v1/resources/queues"), 400, refusedTenant)
	})
	t.Run("an empty value is no UUID either", func(t *testing.T) {
		needBody(t, plain.WithTenant("").Get("/api/v1/resources/queues"), 400, refusedTenant)
	})
	t.Run("no header is the default tenant", func(t *testing.T) {
		reply := plain.WithTenant(defaultTenant).Push(item)
		need(t, reply.Response, 201)
		if reply.Items[0].Status != "duplicate" || reply.Items[0].MessageID != first.MessageID {
			t.Fatalf("the dedup window of the default tenant must answer, got %v", reply)
		}
	})
	t.Run("queues and dedup are per tenant", func(t *testing.T) {
		if *theirFirst.Offset != 0 || theirFirst.MessageID == first.MessageID {
			t.Fatalf("want a queue of its own, got %+v", theirFirst)
		}
	})
	query := "leaseSeconds=60&consumerGroup=g&subscriptionMode=all"
	mine, theirs := plain.Pop("q", query), other.Pop("q", query)
	needMessages(t, mine, "t")
	needMessages(t, theirs, "t")
	t.Run("messages are per tenant", func(t *testing.T) {
		if string(mine.Messages[0].Data) != `"default"` || string(theirs.Messages[0].Data) != `"other"` {
			t.Fatalf("got %s and %s", mine.Messages[0].Data, theirs.Messages[0].Data)
		}
	})
	t.Run("an ack of a foreign partition is an item error", func(t *testing.T) {
		item := theirs.Messages[0].Ack("completed")
		for _, lease := range []string{item.LeaseID, ""} {
			item.LeaseID = lease
			reply := plain.Ack("g", item)
			need(t, reply.Response, 200)
			want := "partition " + item.PartitionID + " not owned by this tenant"
			if verdict := reply.Items[0]; verdict.Success || verdict.Error == nil || *verdict.Error != want {
				t.Fatalf("want %q, got %v", want, reply)
			}
		}
	})
	t.Run("a foreign lease is unknown", func(t *testing.T) {
		reply := plain.Extend(theirs.LeaseID, nil)
		need(t, reply.Response, 200)
		if reply.Success || reply.Renewed != 0 {
			t.Fatalf("got %v", reply)
		}
	})
	t.Run("ids in an address are per tenant", func(t *testing.T) {
		address := "/api/v1/messages/" + theirs.PartitionID + "/t"
		need(t, other.Get(address), 200)
		need(t, plain.Get(address), 404)
	})
	t.Run("dead letters and groups are per tenant", func(t *testing.T) {
		need(t, other.Ack("g", theirs.Messages[0].Ack("dlq")).Response, 200)
		if total := other.Get("/api/v1/dlq?queue=q").Object()["total"]; total != json.Number("1") {
			t.Fatalf("the tenant itself must see its dead letter, got total %v", total)
		}
		if total := plain.Get("/api/v1/dlq?queue=q").Object()["total"]; total != json.Number("0") {
			t.Fatalf("another tenant must not, got total %v", total)
		}
		needMessageCount(t, other.Pop("elsewhere", "consumerGroup=solo"), 0)
		pushOne(t, other, harness.Item{Queue: "elsewhere", Payload: 1})
		needMessageCount(t, other.Pop("elsewhere", "consumerGroup=solo"), 1)
		need(t, other.Get("/api/v1/consumer-groups/solo"), 200)
		need(t, plain.Get("/api/v1/consumer-groups/solo"), 404)
	})
	t.Run("the lists show the own tenant only", func(t *testing.T) {
		if body := string(plain.Get("/api/v1/resources/queues").Body); strings.Contains(body, "elsewhere") {
			t.Fatalf("got %s", body)
		}
		if body := string(other.Get("/api/v1/resources/queues").Body); !strings.Contains(body, "elsewhere") {
			t.Fatalf("got %s", body)
		}
	})
}
