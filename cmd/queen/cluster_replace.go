package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/cmd/queen/admin"
)

// replaceCommand is `queen cluster replace` (operations 5.3): a member whose directory is lost or damaged returns with an empty one, in
// place or on another host.
func replaceCommand(flags *clusterFlags) *cobra.Command {
	var at admin.Address
	command := &cobra.Command{
		Use:   "replace ID [--raft HOST:PORT] [--http HOST:PORT]",
		Short: "have a node return with an empty directory: it is reset, fed and promoted",
		Long: "Have a node return with an empty directory, as a voter. A node that runs is reset in place, also one that has stopped because of\n" +
			"its disk; one that does not run is to be started with an empty directory and QUEEN_RAFT_JOIN=true meanwhile. With --raft or --http\n" +
			"the node is taken out, and a fresh one at that address is added and promoted. Repeat the command if it was interrupted or timed out.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ids, err := nodeIDs(arguments)
			if err != nil {
				return err
			}
			id := ids[0]
			about := fmt.Sprintf("replace node %d: empty its directory, feed and promote it", id)
			if at.Raft != "" || at.HTTP != "" {
				about = fmt.Sprintf("replace node %d by a fresh one at another address", id)
			}
			return flags.carryOut(command, change{about, func(ctx context.Context, client *admin.Client) (admin.Changed, error) {
				if at.Raft != "" || at.HTTP != "" {
					return flags.replaceElsewhere(ctx, client, id, at)
				}
				flags.tell("a node that does not run: start it with an empty directory and QUEEN_RAFT_JOIN=true")
				watching, stop := context.WithCancel(ctx)
				done := make(chan struct{})
				go func() {
					defer close(done)
					flags.watchPlan(watching, client)
				}()
				changed, err := client.Replace(ctx, id)
				stop()
				<-done
				return changed, err
			}})
		},
	}
	command.Flags().StringVar(&at.Raft, "raft", "", "raft address of the fresh node, host:port, when it is another one")
	command.Flags().StringVar(&at.HTTP, "http", "", "HTTP address of the fresh node, host:port, when it is another one")
	flags.registerYes(command)
	return command
}

// replaceElsewhere takes a node out, waits for a fresh one under its id at another address, and makes that a voter.
func (f *clusterFlags) replaceElsewhere(ctx context.Context, client *admin.Client, id uint64, at admin.Address) (admin.Changed, error) {
	before, err := client.Membership(ctx)
	if err != nil {
		return before, err
	}
	for _, member := range before.Membership.Members {
		if member.NodeID == id {
			if member.Raft == cmp.Or(at.Raft, member.Raft) && member.HTTP == cmp.Or(at.HTTP, member.HTTP) {
				return client.PromoteWhenCaughtUp(ctx, id) // an earlier call came as far as this
			}
			at.Raft, at.HTTP = cmp.Or(at.Raft, member.Raft), cmp.Or(at.HTTP, member.HTTP)
		}
	}
	if at.Raft == "" || at.HTTP == "" {
		return before, errors.New("the node is no member any more: want both --raft and --http")
	}
	if _, err := client.Remove(ctx, id); err != nil {
		return before, err
	}
	f.tell(fmt.Sprintf("node %d is out; start the fresh one at %s with an empty directory and QUEEN_RAFT_JOIN=true", id, at.Raft))
	if _, err := client.AddLearnerWhenUp(ctx, id, at); err != nil {
		return before, err
	}
	f.tell(fmt.Sprintf("node %d is a learner", id))
	promoted, err := client.PromoteWhenCaughtUp(ctx, id)
	promoted.Anew = err == nil
	return promoted, err
}

// tell prints a line of progress.
func (f *clusterFlags) tell(line string) {
	if !f.quiet {
		fmt.Fprintln(f.around.stderr, line)
	}
}

// watchPlanEvery is the pause between two looks at a plan.
const watchPlanEvery = time.Second

// watchPlan prints how far the pending plan is, whenever that has changed, until ctx ends.
func (f *clusterFlags) watchPlan(ctx context.Context, client *admin.Client) {
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchPlanEvery):
		}
		view, err := client.Membership(ctx)
		if err != nil || view.Membership.Plan == nil {
			continue // the answer to the change tells how it ended
		}
		if line := planLine(view.Membership.Plan); line != last {
			f.tell(line)
			last = line
		}
	}
}

// planLine shows the steps of a plan.
func planLine(plan *admin.Plan) string {
	steps := make([]string, len(plan.Steps))
	for i, step := range plan.Steps {
		steps[i] = fmt.Sprintf("%s %d %s", step.Op, step.ID, step.State)
	}
	line := plan.Kind + ": " + strings.Join(steps, ", ")
	if plan.Waiting != nil {
		line += " (waiting: " + *plan.Waiting + ")"
	}
	return line
}
