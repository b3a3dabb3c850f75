package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"

	"queen/cmd/queen/admin"
)

// showChange prints the membership after a change, or that it was so already.
func (f *clusterFlags) showChange(before *admin.Membership, after admin.Changed) error {
	if f.format != "table" {
		return f.showData(after.Raw)
	}
	if f.quiet {
		return nil
	}
	if before.Same(&after.Membership) && !after.Anew {
		fmt.Fprintln(f.around.stdout, "nothing to do: it was so already")
	}
	return f.showMembership(&after.Membership)
}

func (f *clusterFlags) showMembership(view *admin.Membership) error {
	fmt.Fprintln(f.around.stdout, membersLine(view))
	table := f.table("NODE", "ROLE", "RAFT", "HTTP", "LAG", "LIVE", "IDENTITY")
	for _, member := range view.Members {
		table.row(strconv.FormatUint(member.NodeID, 10), roleOf(member), member.Raft, member.HTTP, number(member.Lag), yesNo(member.Live), member.Identity)
	}
	return table.flush()
}

func (f *clusterFlags) showTransfer(done admin.Transfer) error {
	if f.format != "table" {
		return f.showData(done.Raw)
	}
	switch {
	case f.quiet:
	case done.From == done.To:
		fmt.Fprintf(f.around.stdout, "nothing to do: node %d leads already, term %d\n", done.To, done.Term)
	default:
		fmt.Fprintf(f.around.stdout, "leadership went from node %d to node %d in %d ms, term %d\n", done.From, done.To, done.Ms, done.Term)
	}
	return nil
}

// showRefusal prints the body of a refusal where a program reads the output. The text goes to stderr in any case.
func (f *clusterFlags) showRefusal(err error) {
	refusal, refused := errors.AsType[*admin.Refusal](err)
	if refused && f.format != "table" && json.Valid(refusal.Body) {
		_ = f.showData(refusal.Body) // the refusal itself is the error to report
	}
}

// showData prints a JSON document as it came, or as YAML with its fields in the same order.
func (f *clusterFlags) showData(document []byte) error {
	if f.quiet {
		return nil
	}
	if f.format == "json" {
		_, err := fmt.Fprintf(f.around.stdout, "%s\n", bytes.TrimSpace(document))
		return err
	}
	var root yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(document, &root); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	plain(&root)
	encoder := yaml.NewEncoder(f.around.stdout)
	encoder.SetIndent(2)
	return errors.Join(encoder.Encode(&root), encoder.Close())
}

// plain takes the brackets and needless quotes of JSON off a YAML tree.
func plain(node *yaml.Node) {
	node.Style = 0
	for _, child := range node.Content {
		plain(child)
	}
}

// membersLine describes a membership in one line.
func membersLine(view *admin.Membership) string {
	line := "leader " + number(view.Leader) + ", term " + strconv.FormatUint(view.Term, 10) + ", voters " + idList(view.Voters)
	if len(view.Learners) > 0 {
		line += ", learners " + idList(view.Learners)
	}
	return line
}

func roleOf(member admin.Member) string {
	if member.Voter {
		return "voter"
	}
	return "learner"
}

func idList(ids []uint64) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.FormatUint(id, 10)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ",")
}

// number prints what a node may not know.
func number(value *uint64) string {
	if value == nil {
		return "-"
	}
	return strconv.FormatUint(*value, 10)
}

func yesNo(value bool) string {
	if value {
		return "yes"
	}
	return "no"
}

// clusterTable is a table with aligned columns.
type clusterTable struct{ out *tabwriter.Writer }

func (f *clusterFlags) table(headers ...string) clusterTable {
	table := clusterTable{tabwriter.NewWriter(f.around.stdout, 0, 0, 2, ' ', 0)}
	if !f.noHeaders {
		table.row(headers...)
	}
	return table
}

// row adds a line. The last cell ends it without a tab, so that no line ends in spaces.
func (t clusterTable) row(cells ...string) {
	_, _ = io.WriteString(t.out, strings.Join(cells, "\t")+"\n")
} // flush reports it

func (t clusterTable) flush() error { return t.out.Flush() }
