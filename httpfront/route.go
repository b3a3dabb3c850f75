package httpfront

import "strings"

// Level is what a route demands of a token (messaging 2.6).
type Level uint8

// The levels. They are bits, because the levels that a role passes are a set and not a ladder.
const (
	// LevelPublic demands nothing, ever. The metrics pages are LevelReadOnly routes that the default of JWT_SKIP_PATHS
	// opens, so that an operator can close them (operations 6.4).
	LevelPublic    Level = 0
	LevelReadOnly  Level = 1
	LevelWriteOnly Level = 2
	LevelReadWrite Level = 4
	LevelAdmin     Level = 8
)

// Shape is the form of a route's refusals with status 400; all other refusals have the envelope (messaging 2.7). The shapes of the
// state surfaces are those of every status.
type Shape uint8

// The shapes of a 400.
const (
	// ShapeEnvelope is {"error","code"}.
	ShapeEnvelope Shape = iota
	// ShapePop is {"success":false,"error","messages":[]}.
	ShapePop
	// ShapeFetch is {"error"}.
	ShapeFetch
	// ShapeSuccess is {"success":false,"error"}.
	ShapeSuccess
	// ShapeKV is that of the KV routes for all of their refusals, ShapeLocks that of the lock routes, ShapeTimers that of the routes of
	// timers: {"error","reason","detail"} (state 1.3).
	ShapeKV
	ShapeLocks
	ShapeTimers
)

// Handler answers one request. It runs on the goroutine of the connection; the request and everything that it lends is
// dead when the handler returns.
type Handler func(r *Request)

// Route is one line of the routing table (messaging 3).
type Route struct {
	Method string
	// Pattern is a path whose segments may be parameters, such as /api/v1/pop/queue/:queue. A last segment that begins
	// with * takes the rest of the path, its slashes included.
	Pattern string
	Level   Level
	Handler Handler
	// Admit makes the request ask for byte permits before its body is read (messaging 2.10).
	Admit bool
	// Head lets HEAD work as GET does (messaging 2.3).
	Head bool
	// Early lets the route answer before the node is ready and while it stops.
	Early bool
	// Refusal is the form of the route's 400s.
	Refusal Shape
}

// router finds the route of a raw path. It is built once, before the server starts, and read by all connections.
type router struct {
	root node
	// exact holds the patterns without parameters: most requests need no more than one look at it.
	exact map[string]*leaf
}

// node is one segment of the tree of patterns.
type node struct {
	static map[string]*node
	param  *node
	// rest is the leaf of a pattern that ends with a wildcard here.
	rest *leaf
	leaf *leaf
}

// leaf holds the routes of one pattern.
type leaf struct {
	routes []*routeEntry
}

// routeEntry is a route with what the server keeps beside it.
type routeEntry struct {
	Route
	names []string
	stats *routeStats
}

// add puts a route into the tree. Two routes for one method and pattern, or two names for one parameter, are a bug of the
// table.
func (t *router) add(entry *routeEntry) {
	segments := strings.Split(strings.TrimPrefix(entry.Pattern, "/"), "/")
	at := &t.root
	var names []string
	for i, segment := range segments {
		switch {
		case strings.HasPrefix(segment, ":"):
			names = append(names, segment[1:])
			if at.param == nil {
				at.param = &node{}
			}
			at = at.param
		case strings.HasPrefix(segment, "*"):
			if i != len(segments)-1 {
				panic("BUG: a wildcard must end the pattern " + entry.Pattern)
			}
			names = append(names, segment[1:])
			if at.rest == nil {
				at.rest = &leaf{}
			}
			at.rest.add(entry, names)
			return
		default:
			if at.static == nil {
				at.static = map[string]*node{}
			}
			if at.static[segment] == nil {
				at.static[segment] = &node{}
			}
			at = at.static[segment]
		}
	}
	if at.leaf == nil {
		at.leaf = &leaf{}
	}
	at.leaf.add(entry, names)
	if names == nil {
		if t.exact == nil {
			t.exact = map[string]*leaf{}
		}
		t.exact[entry.Pattern] = at.leaf
	}
}

func (l *leaf) add(entry *routeEntry, names []string) {
	if l.find(entry.Method) != nil {
		panic("BUG: two routes for " + entry.Method + " " + entry.Pattern)
	}
	entry.names = names
	l.routes = append(l.routes, entry)
}

// find returns the route of a method; HEAD is served by GET where the route says so.
func (l *leaf) find(method string) *routeEntry {
	for _, entry := range l.routes {
		if entry.Method == method || entry.Head && method == "HEAD" && entry.Method == "GET" {
			return entry
		}
	}
	return nil
}

// match is the outcome of a look-up.
type match struct {
	// entry is nil when no pattern has the method.
	entry *routeEntry
	// notUTF8 says that a segment of the path is not UTF-8. The request is refused then and has no entry; meant is the route, when
	// there is one, which tells the level that it needs and the form of the refusal.
	notUTF8 bool
	meant   *routeEntry
	// params are the values of the parameters in the order of the pattern.
	params []string
	// allow lists the methods of all patterns that fit the path, in the form of the Allow header; it is set only when
	// entry is nil and some pattern fits.
	allow string
}

// lookup is a search in the tree. A static segment is tried before a parameter, and a pattern that lacks the method does
// not hide one that has it.
type lookup struct {
	method string
	found  *routeEntry
	params []string
	fits   []*leaf
}

// find matches a raw path.
func (t *router) find(method string, path []byte) match {
	if leaf := t.exact[string(path)]; leaf != nil {
		if entry := leaf.find(method); entry != nil {
			return match{entry: entry}
		}
	}
	segments, ok := splitPath(path)
	search := lookup{method: method}
	search.visit(&t.root, segments)
	if !ok {
		return match{notUTF8: true, meant: search.found}
	}
	if search.found != nil {
		return match{entry: search.found, params: search.params}
	}
	return match{allow: allowHeader(search.fits)}
}

func (l *lookup) visit(at *node, segments []string) {
	if len(segments) == 0 {
		l.try(at.leaf)
		return
	}
	if next := at.static[segments[0]]; next != nil {
		l.visit(next, segments[1:])
	}
	if l.found == nil && at.param != nil {
		l.params = append(l.params, segments[0])
		l.visit(at.param, segments[1:])
		if l.found == nil {
			l.params = l.params[:len(l.params)-1]
		}
	}
	if l.found == nil && at.rest != nil {
		if l.try(at.rest); l.found != nil {
			l.params = append(l.params, strings.Join(segments, "/"))
		}
	}
}

func (l *lookup) try(candidate *leaf) {
	if candidate == nil {
		return
	}
	if l.found = candidate.find(l.method); l.found == nil {
		l.fits = append(l.fits, candidate)
	}
}

func allowHeader(fits []*leaf) string {
	var methods []string
	seen := map[string]bool{}
	put := func(method string) {
		if !seen[method] {
			seen[method] = true
			methods = append(methods, method)
		}
	}
	for _, fit := range fits {
		for _, entry := range fit.routes {
			put(entry.Method)
			if entry.Head {
				put("HEAD")
			}
		}
	}
	return strings.Join(methods, ", ")
}
