// Package contract tests the HTTP contract of the broker from outside: its tests start the real binary and judge nothing
// but answers. Every test names the rule it keeps and the section of the messaging specification that states it.
//
// All tests share one broker and run in parallel, each with queue names of its own; a test that needs other settings,
// a restart or an empty broker starts a private one, and one whose rule shows only among several nodes starts a cluster.
// Where the contract speaks of time, an answer that comes early is a failure and one that comes late is tolerated up to a
// generous bound, because the machine may be busy.
//
// QUEEN_CONTRACT_LONG=1 adds the checks that have to wait for minutes; the gate runs them in a step of their own.
package contract
