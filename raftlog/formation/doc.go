// Package formation makes the first cluster of several empty directories (cluster 3.1, 3.2), over the purpose admin of the
// raft port.
//
// Every listed node asks every other one, again and again, who it is: empty or not, which incarnation, which peer list.
// What a node does follows from its own directory and one complete round of answers (decide):
//
//  1. Somebody holds a formation record that names this node with this incarnation: this node takes the record. So a crash
//     in the middle is completed by whoever comes back, in any order.
//  2. Somebody has state, and no record for this incarnation: this node joins, and waits to be added. So wiped nodes never
//     form a second cluster beside one that holds data.
//  3. Somebody is missing, or waits to be added itself: wait. A first start needs every listed peer once. So wiped nodes
//     never form while those that hold data are down.
//  4. The lists differ: nobody forms.
//  5. All are empty and agree: the lowest id mints the cluster id, writes the record into its own identity.json and sends
//     it to the others.
//
// Why there is at most one cluster: a record is made only by the lowest id of a list after every listed node has answered
// empty with that same list. Two records of different lists would need one node with two lists. Two records of one list
// would need the same maker twice; it writes the record before it sends it, so it is empty again only under another
// incarnation, and then either a node with the first record answers (1, 2) or is missing (3), or nobody has it. Nobody gets
// it later: a record that was sent is taken only from the incarnation of its maker that has asked last.
//
// A node takes a record only while it is empty, and only one that names its own incarnation: such a record was made after
// this directory had answered empty. The record lies in identity.json, beside the cluster id: a node is formed with the
// whole first membership or not at all. A node that is formed, or joins, goes on answering.
package formation
