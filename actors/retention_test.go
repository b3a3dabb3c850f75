package actors

import (
	"strings"
	"testing"

	"queen/raftlog/command"
)

// TestCompletedRetentionWaitsForEveryReader removes what every cursor has passed; a registered group that has not met the
// partition yet counts with the cursor that it would get (messaging 15, rule 2).
func TestCompletedRetentionWaitsForEveryReader(t *testing.T) {
	for _, c := range []struct {
		name    string
		others  []command.Command
		removed bool
	}{
		{"alone", nil, true},
		{"a registered group that begins at the oldest", []command.Command{command.Register{
			Tenant: command.DefaultTenant, Queue: "orders", Group: "late", Subscription: command.Subscription{Mode: command.SubscriptionAll},
		}}, false},
		{"a registered group that begins behind", []command.Command{command.Register{
			Tenant: command.DefaultTenant, Queue: "orders", Group: "late", Subscription: command.Subscription{Mode: command.SubscriptionNew},
		}}, true},
		{"a group that was only named", []command.Command{command.Seek{
			Tenant: command.DefaultTenant, Queue: "orders", Group: "late", Partition: "p", TimestampMicros: 1,
		}}, false},
		{"a sink that has committed nothing", []command.Command{command.Configure{
			Tenant: command.DefaultTenant, Queue: "orders",
			Changes: []command.OptionChange{{Key: command.OptionRetentionSinkHold, Text: "sink"}},
		}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.must(command.Configure{Tenant: command.DefaultTenant, Queue: "orders", Changes: []command.OptionChange{
				{Key: command.OptionRetentionEnabled, Flag: true}, {Key: command.OptionCompletedRetentionSeconds, Number: 5},
			}})
			s.must(command.Ack{Tenant: command.DefaultTenant, Group: "workers", Parts: []command.AckPart{{
				Partition: 1, Lease: s.lease, Items: []command.AckItem{{Txid: "y"}},
			}}}, command.Ack{Tenant: command.DefaultTenant, Group: "workers", Parts: []command.AckPart{{
				Partition: 1, Items: []command.AckItem{{Txid: "z"}},
			}}})
			for _, other := range c.others {
				s.must(other)
			}
			retain := command.Retain{Partitions: []command.RetainPartition{{Partition: 1, MaxAppends: 10}}}
			if result := s.must(retain)[0]; !strings.Contains(result, `"Appends":0`) {
				t.Errorf("what is young goes: %s", result)
			}
			s.now += 6 * modelSecond
			if result := s.must(retain)[0]; strings.Contains(result, `"Appends":1`) != c.removed {
				t.Errorf("the result is %s", result)
			}
		})
	}
}

// TestPositionedPartitionIsNotIdleAtOnce: a partition that nothing was ever stored in is idle since it was made.
func TestPositionedPartitionIsNotIdleAtOnce(t *testing.T) {
	s := newScene(t)
	s.days = 30
	s.must(command.Transaction{Tenant: command.DefaultTenant, Positions: []command.Position{{
		Queue: "orders", Group: "workers", Partition: "empty", HasOffset: true,
	}}})
	retain := command.Retain{Partitions: []command.RetainPartition{{Partition: 2, MaxAppends: 1}}}
	s.must(retain)
	if !strings.Contains(s.dump(), `partition 2 of 1`) {
		t.Fatal("the partition is gone with its position")
	}
	s.now += 31 * 24 * 3600 * modelSecond
	s.must(retain)
	if strings.Contains(s.dump(), `partition 2 of 1`) || !strings.Contains(s.dump(), `partition 1 of 1`) {
		t.Errorf("after 31 days there is\n%s", s.dump())
	}
}
