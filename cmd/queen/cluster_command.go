package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"queen/cmd/queen/admin"
)

// clusterCommand is `queen cluster …`: the state, the members and the leader of a cluster (operations 9.2).
func clusterCommand(around process) *cobra.Command {
	flags := &clusterFlags{around: around}
	command := &cobra.Command{
		Use:   "cluster",
		Short: "show and change the members of a cluster",
		Long: "Show and change the members of a cluster. Any node takes these commands and relays them to the leader.\n\n" +
			"Exit codes: 0 done, 1 wrong use or a local error, 2 the server refused or is unhealthy, 3 not authorised. Everything is safe\n" +
			"to repeat. What changes something asks first when somebody sits at the terminal; --yes does not.",
		Args: cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return fmt.Errorf("unknown command %q; `queen cluster --help` lists them", arguments[0])
			}
			return command.Help()
		},
	}
	flags.register(command)
	command.AddCommand(statusCommand(flags), addCommand(flags), promoteCommand(flags), votersCommand(flags), removeCommand(flags),
		replaceCommand(flags), addressCommand(flags), transferCommand(flags))
	return command
}

// change is one change of the membership: what is said about it beforehand, and how it is sent.
type change struct {
	about string
	send  func(ctx context.Context, client *admin.Client) (admin.Changed, error)
}

// carryOut announces a change, asks where somebody can answer, sends it and prints the membership after it.
func (f *clusterFlags) carryOut(command *cobra.Command, change change) error {
	return f.with(command, func(ctx context.Context, client *admin.Client) error {
		before, err := client.Membership(ctx)
		if err != nil {
			return fmt.Errorf("ask for the membership: %w", err)
		}
		if err := f.confirm(change.about + " (cluster " + before.Membership.ClusterID + ", " + membersLine(&before.Membership) + ")"); err != nil {
			return err
		}
		ctx, cancel := client.WithDeadline(ctx)
		defer cancel()
		after, err := change.send(ctx, client)
		if err != nil {
			f.showRefusal(err)
			return fmt.Errorf("%s: %w", command.Name(), err)
		}
		return f.showChange(&before.Membership, after)
	})
}

func addCommand(flags *clusterFlags) *cobra.Command {
	var at admin.Address
	var promote bool
	command := &cobra.Command{
		Use:   "add ID --raft HOST:PORT --http HOST:PORT",
		Short: "add a running node as a learner; --promote makes it a voter once it has caught up",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ids, err := nodeIDs(arguments)
			if err != nil {
				return err
			}
			if at.Raft == "" || at.HTTP == "" {
				return errors.New("add: want --raft and --http, the addresses at which the others reach the node")
			}
			about := fmt.Sprintf("add node %d (raft %s, http %s) as a learner", ids[0], at.Raft, at.HTTP)
			if promote {
				about += " and promote it once it has caught up"
			}
			return flags.carryOut(command, change{about, func(ctx context.Context, client *admin.Client) (admin.Changed, error) {
				added, err := client.AddLearner(ctx, ids[0], at)
				// A voter cannot be added as a learner, and has what --promote asks for: so a repeat succeeds.
				refusal, refused := errors.AsType[*admin.Refusal](err)
				if !promote || err != nil && !(refused && refusal.Code == "already_voter") {
					return added, err
				}
				return client.PromoteWhenCaughtUp(ctx, ids[0])
			}})
		},
	}
	command.Flags().StringVar(&at.Raft, "raft", "", "raft address of the node, host:port")
	command.Flags().StringVar(&at.HTTP, "http", "", "HTTP address of the node, host:port")
	command.Flags().BoolVar(&promote, "promote", false, "make it a voter once it has caught up; give it time with --timeout")
	flags.registerYes(command)
	return command
}

func promoteCommand(flags *clusterFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "promote ID…",
		Short: "make learners voters",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ids, err := nodeIDs(arguments)
			if err != nil {
				return err
			}
			return flags.carryOut(command, change{"promote node " + idList(ids), func(ctx context.Context, client *admin.Client) (admin.Changed, error) {
				return client.Promote(ctx, ids)
			}})
		},
	}
	flags.registerYes(command)
	return command
}

func votersCommand(flags *clusterFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "voters ID…",
		Short: "make exactly these nodes the voters; with the present voters it aborts a plan that waits",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ids, err := nodeIDs(arguments)
			if err != nil {
				return err
			}
			return flags.carryOut(command, change{"make " + idList(ids) + " the voters", func(ctx context.Context, client *admin.Client) (admin.Changed, error) {
				return client.SetVoters(ctx, ids)
			}})
		},
	}
	flags.registerYes(command)
	return command
}

func removeCommand(flags *clusterFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "remove ID",
		Short: "take a node out of the cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ids, err := nodeIDs(arguments)
			if err != nil {
				return err
			}
			return flags.carryOut(command, change{"remove node " + idList(ids), func(ctx context.Context, client *admin.Client) (admin.Changed, error) {
				return client.Remove(ctx, ids[0])
			}})
		},
	}
	flags.registerYes(command)
	return command
}

func addressCommand(flags *clusterFlags) *cobra.Command {
	var to admin.Address
	command := &cobra.Command{
		Use:   "address ID [--raft HOST:PORT] [--http HOST:PORT]",
		Short: "record a new address of a node that has moved",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ids, err := nodeIDs(arguments)
			if err != nil {
				return err
			}
			var parts []string
			if to.Raft != "" {
				parts = append(parts, "raft "+to.Raft)
			}
			if to.HTTP != "" {
				parts = append(parts, "http "+to.HTTP)
			}
			if len(parts) == 0 {
				return errors.New("address: want --raft, --http or both")
			}
			about := fmt.Sprintf("record the address of node %d: %s", ids[0], strings.Join(parts, ", "))
			if to.Force {
				about += ", without asking who answers there"
			}
			return flags.carryOut(command, change{about, func(ctx context.Context, client *admin.Client) (admin.Changed, error) {
				return client.RecordAddress(ctx, ids[0], to)
			}})
		},
	}
	command.Flags().StringVar(&to.Raft, "raft", "", "new raft address, host:port")
	command.Flags().StringVar(&to.HTTP, "http", "", "new HTTP address, host:port")
	command.Flags().BoolVar(&to.Force, "force", false, "also when the node does not answer at its new raft address")
	flags.registerYes(command)
	return command
}

func transferCommand(flags *clusterFlags) *cobra.Command {
	var group int
	command := &cobra.Command{
		Use:   "transfer [ID]",
		Short: "hand leadership to a node, or to the one that is furthest",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ids, err := nodeIDs(arguments)
			if err != nil {
				return err
			}
			if group < 0 || group > maxGroup {
				return fmt.Errorf("group %d: want 0 to %d", group, maxGroup)
			}
			to, about := uint64(0), "hand over leadership"
			if len(ids) == 1 {
				to, about = ids[0], "hand leadership to node "+idList(ids)
			}
			if group != 0 {
				about += fmt.Sprintf(" of group %d", group)
			}
			return flags.with(command, func(ctx context.Context, client *admin.Client) error {
				if err := flags.confirm(about); err != nil {
					return err
				}
				done, err := client.TransferTo(ctx, to, group)
				if err != nil {
					flags.showRefusal(err)
					return fmt.Errorf("%s: %w", command.Name(), err)
				}
				return flags.showTransfer(done)
			})
		},
	}
	command.Flags().IntVar(&group, "group", 0, "the group whose leader is meant")
	flags.registerYes(command)
	return command
}

// maxGroup is the highest group (cluster 0).
const maxGroup = 63

// highestNodeID is the largest QUEEN_RAFT_NODE_ID (cluster 1.3).
const highestNodeID = 4294967295

// nodeIDs reads the ids of a command line; each may occur once.
func nodeIDs(arguments []string) ([]uint64, error) {
	ids := make([]uint64, 0, len(arguments))
	for _, text := range arguments {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil || id < 1 || id > highestNodeID {
			return nil, fmt.Errorf("node %q: want a whole number from 1 to %d", text, int64(highestNodeID))
		}
		if slices.Contains(ids, id) {
			return nil, fmt.Errorf("node %d: want every id once", id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
