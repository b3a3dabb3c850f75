// Package api holds the handlers of the message plane, one file per family, and the routing table that reads as the table
// of messaging 3. A handler checks a request, turns it into a command or a read, and turns the outcome into JSON; it has
// no state of its own and does not know who leads.
package api
