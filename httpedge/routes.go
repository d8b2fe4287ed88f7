package httpedge

import (
	"cmp"
	"encoding/json"
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
	JSON   bool // an array of objects, one per route
}

// routeRow is a line of the table.
type routeRow struct {
	Surface string   `json:"surface"`
	Method  string   `json:"method"`
	Path    string   `json:"path"`
	Handler string   `json:"handler"`
	Access  string   `json:"access"`
	Status  int      `json:"status"`
	Errors  []string `json:"errors"`
	Source  string   `json:"source,omitempty"`
}

// WriteRoutes prints all routes of surfaces, one per line: method, path, handler, access, status, its declared
// failure codes, and on request where it is declared.
func WriteRoutes(w io.Writer, surfaces []Mounted, table RouteTable) error {
	rows := []routeRow{}
	for _, mounted := range surfaces {
		for i := range mounted.Surface.Routes {
			rows = append(rows, rowOf(mounted, &mounted.Surface.Routes[i], table.Source))
		}
	}
	if table.JSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	surface := ""
	for i := range rows {
		r := &rows[i]
		if r.Surface != surface {
			surface = r.Surface
			fmt.Fprintf(out, "# %s\n", surface)
		}
		columns := []string{r.Method, r.Path, r.Handler, r.Access, strconv.Itoa(r.Status), cmp.Or(strings.Join(r.Errors, ","), "-")}
		if table.Source {
			columns = append(columns, r.Source)
		}
		fmt.Fprintln(out, strings.Join(columns, "\t"))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write routes: %w", err)
	}
	return nil
}

func rowOf(mounted Mounted, route *endpoint.Route, source bool) routeRow {
	row := routeRow{
		Surface: mounted.Surface.Name, Method: route.Method, Path: strings.TrimSuffix(mounted.Prefix, "/") + route.Path,
		Handler: route.Handler, Access: route.Access, Status: route.Status, Errors: make([]string, len(route.Errors)),
	}
	for i, code := range route.Errors {
		row.Errors[i] = mounted.Surface.Refusals[code].Code
	}
	slices.Sort(row.Errors)
	if source {
		row.Source = route.Source
	}
	return row
}
