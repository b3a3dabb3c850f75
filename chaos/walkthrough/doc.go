// Package walkthrough performs the walkthrough of deploy/compose/three-node/README.md step by step and asserts what it promises
// (operations 1.4), on what deploy/ ships: three processes kept by deploy/local/cluster, or three containers kept by Compose.
//
// It promises:
//
//  1. Every step of the README is performed, in its order and under its title; a test compares the two.
//  2. Nothing is left behind, also when the test process is killed: a guard removes the nodes then.
//
// Measured times are held against the README times the flag -patience, since other tests may share the machine; -patience 1
// asserts the README as it stands. The tests of deploy/local/cluster itself are here too; they run it on a small stand-in
// for the broker (standin_test.go), so that each of its cases can be made.
package walkthrough
