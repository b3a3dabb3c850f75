// Package membership is the pure machine of the members table, the plan and the format of the cluster (cluster 2.3, 4.4,
// 15.2). It keeps what the leader decides and has rules of its own only where two leaders could cross each other:
//
//  1. A change is made under the index of the change before it, or refused. So a command of a former leader that arrives late
//     undoes nothing.
//  2. At most one plan is pending.
//  3. The format never falls.
//  4. Which entry added an incarnation is known here alone: it tells old tables from new ones (peer.Judge).
//
// The state is read from the store for every change, which are rare, so nothing is remembered that a crash could tear.
package membership
