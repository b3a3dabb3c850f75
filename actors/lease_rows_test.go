package actors

import (
	"testing"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// TestEndedLeaseLeavesNoRow ends a lease in every way there is; the dump checks that the table lists what the rows name.
func TestEndedLeaseLeavesNoRow(t *testing.T) {
	const later = 600 * modelSecond // the lease lasts 60 s
	ack := func(s *scene, lease uuid.UUID, status command.AckStatus) command.Command {
		return command.Ack{Tenant: command.DefaultTenant, Group: "workers", Parts: []command.AckPart{{
			Partition: 1, Lease: lease, Items: []command.AckItem{{Txid: "x", Status: status}, {Txid: "y", Status: status}},
		}}}
	}
	claim := func(onDelivery bool) command.Command {
		c := command.Claim{
			Tenant: command.DefaultTenant, Group: "workers", Batch: 1, CommitOnDelivery: onDelivery,
			Parts: []command.ClaimPart{{Queue: "orders", Targets: []command.ClaimTarget{{Partition: 1}}}},
		}
		if !onDelivery {
			c.Lease = uuid.New()
		}
		return c
	}
	for name, end := range map[string]func(s *scene){
		"completed":                      func(s *scene) { s.must(ack(s, s.lease, command.AckCompleted)) },
		"failed":                         func(s *scene) { s.must(ack(s, s.lease, command.AckFailed)) },
		"dead letter":                    func(s *scene) { s.must(ack(s, s.lease, command.AckDeadLetter)) },
		"expired, acked without a lease": func(s *scene) { s.now += later; s.must(ack(s, uuid.Nil, command.AckCompleted)) },
		"expired, claimed again":         func(s *scene) { s.now += later; s.must(claim(false)) },
		"expired, commit on delivery":    func(s *scene) { s.now += later; s.must(claim(true)) },
		"expired, and the delivery undone": func(s *scene) {
			s.must(ack(s, s.lease, command.AckCompleted), claim(true), command.HandBack{
				Tenant: command.DefaultTenant, Group: "workers", CommitOnDelivery: true,
				Parts: []command.HandBackPart{{Partition: 1, FirstOffset: 2, LastOffset: 2}},
			})
		},
		"handed back": func(s *scene) {
			s.must(command.HandBack{
				Tenant: command.DefaultTenant, Lease: s.lease, Group: "workers", Parts: []command.HandBackPart{{Partition: 1, LastOffset: 1}},
			})
		},
		"sought": func(s *scene) {
			s.must(command.Seek{Tenant: command.DefaultTenant, Queue: "orders", Group: "workers", AllPartitions: true, ToEnd: true})
		},
		"positioned": func(s *scene) {
			s.must(command.Transaction{Tenant: command.DefaultTenant, Positions: []command.Position{{
				Queue: "orders", Group: "workers", Partition: "p", HasOffset: true, Offset: 1,
			}}})
		},
		"acked in a transaction": func(s *scene) {
			s.must(command.Transaction{Tenant: command.DefaultTenant, Acks: []command.TransactionAck{{
				Group: "workers", AckPart: ack(s, s.lease, command.AckCompleted).(command.Ack).Parts[0],
			}}})
		},
		"expired, acked in a transaction": func(s *scene) {
			s.now += later
			s.must(command.Transaction{Tenant: command.DefaultTenant, Acks: []command.TransactionAck{{
				Group: "workers", AckPart: ack(s, uuid.Nil, command.AckCompleted).(command.Ack).Parts[0],
			}}})
		},
		"group deleted and swept": func(s *scene) {
			s.must(command.DeleteGroup{Tenant: command.DefaultTenant, Queue: "orders", Group: "workers"}, command.Sweep{MaxKeys: 1000})
		},
		"queue deleted and swept": func(s *scene) {
			s.must(command.DeleteQueue{Tenant: command.DefaultTenant, Queue: "orders"}, command.Sweep{MaxKeys: 1000})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			end(s)
			s.dump()
		})
	}
}
