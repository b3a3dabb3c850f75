// Package membership changes who belongs to the cluster (cluster 4): it checks what operators ask for, writes a plan into the
// replicated state and carries it out, one change of one server at a time.
//
// Everything that must survive a change of the leader is in the log: the plan in the state, what is done of it in the
// membership itself. So the leader never remembers where it stands. It looks at the Situation, finds the Next action, does it and
// looks again; a new leader does the same from its first turn on.
//
//  1. One plan at a time. It is committed before its first change (Service.change), and every change carries the index of the
//     membership it was checked against.
//
//  2. A live majority exists in the present voter set, in every one that a plan leads through, and in the last one
//     (Situation.quorum). That is looked at before a plan is made, and again before each of its steps.
//
//  3. The row of a member is committed before its first change of a step: whoever hears of the member knows who it is.
//
//  4. A plan ends done, aborted by an operator, or dropped when its first step was not possible for 10 minutes. A plan of
//     which a step is done goes on until it is done or aborted.
//
//  5. A request has an id, which is the id of its plan. Whoever asks again under it, at this leader or the next, waits for the
//     same plan, or hears how it has ended.
//
//  6. A member that has lost its directory, or is to be replaced, is reset only after its demotion is committed and its old directory
//     is out of the members table; see rejoin.go.
//
// Nodes that do not lead relay requests to the leader (Service.Serve).
package membership
