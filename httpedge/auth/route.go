package auth

import "strings"

// routePattern is one excluded route, split at its wildcards. Two parts or more mean that anything may stand between.
type routePattern []string

func parseRoute(route string) routePattern { return strings.Split(route, "*") }

// matches says whether the path needs no token. The path is compared as it was sent. One that a proxy or router could
// read as another path (dot segments, doubled slashes, escapes) never matches a wildcard: it would open what lies
// beside the excluded route.
func (p routePattern) matches(path string) bool {
	first, last := p[0], p[len(p)-1]
	if len(p) == 1 {
		return path == first
	}
	if ambiguous(path) || !strings.HasPrefix(path, first) {
		return false
	}
	rest := path[len(first):]
	for _, part := range p[1 : len(p)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, last)
}

func ambiguous(path string) bool {
	return strings.ContainsAny(path, "%\\;") || strings.Contains(path, "//") || strings.Contains(path, "/.")
}
