package httpedge

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"parley/httpedge/endpoint"
)

// Mounted is a surface with its base path.
type Mounted struct {
	Prefix  string
	Surface endpoint.Surface
}

// RouteTable selects what WriteRoutes prints.
type RouteTable struct {
	Source bool // print file and line of each declaration
}

// WriteRoutes prints all routes of surfaces, one per line: method, path, handler, access, status, its declared
// failure codes, and on request where it is declared.
func WriteRoutes(w io.Writer, surfaces []Mounted, table RouteTable) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, mounted := range surfaces {
		fmt.Fprintf(out, "# %s\n", mounted.Surface.Name)
		for i := range mounted.Surface.Routes {
			route := &mounted.Surface.Routes[i]
			columns := []string{
				route.Method, strings.TrimSuffix(mounted.Prefix, "/") + route.Path, route.Handler, route.Access,
				strconv.Itoa(route.Status), refusalNames(mounted.Surface, route),
			}
			if table.Source {
				columns = append(columns, route.Source)
			}
			fmt.Fprintln(out, strings.Join(columns, "\t"))
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write routes: %w", err)
	}
	return nil
}

func refusalNames(surface endpoint.Surface, route *endpoint.Route) string {
	if len(route.Errors) == 0 {
		return "-"
	}
	names := make([]string, len(route.Errors))
	for i, code := range route.Errors {
		names[i] = surface.Refusals[code].Code
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
