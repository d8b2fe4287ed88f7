package auth

import "strings"

// routePattern is one excluded route, split at its wildcards; anything may stand between two parts.
type routePattern []string

func parseRoute(route string) routePattern { return strings.Split(route, "*") }

// matches reports whether the path needs no token. The path is compared as sent. A path that a proxy or router could
// normalise to another one (dot segments, double slashes, escapes) never matches a wildcard: it could reach a route
// outside the excluded ones.
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
