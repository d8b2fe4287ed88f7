package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/actors/machine/rawjson"
)

// Limits of a server's list, over all its pages: it is held whole.
const (
	maxListed     = 500
	maxPages      = maxListed // a page may be empty
	maxListBytes  = 4 << 20
	maxListValues = 100_000
	maxLists      = 64 << 20 // twice what all lists together may take
	maxDropped    = 100
)

var errList = errors.New("it lists too much")

// offer is a server's list of tools at one time. Immutable.
type offer struct {
	tools   []*listed
	dropped []Dropped
	content [sha256.Size]byte
	size    int // bytes of the tools
}

// listed is a tool as its server describes it: what is used of it, its values as they came.
type listed struct {
	name, description string
	schema            json.RawMessage
}

// Dropped is a tool that an agent does not get, and why.
type Dropped struct {
	Server string // the MCP server's name, "" = the agent's own
	Name   string // as its server calls it
	Reason string
}

// list reads all pages of a server's tools. What comes over HTTP is bounded before it is decoded, see listing. A cursor that has
// been there before ends the list with what there is.
func list(ctx context.Context, session *mcp.ClientSession) (*offer, error) {
	ctx, taken := withListing(ctx)
	made := new(offer)
	seen := map[string]bool{}
	for number := range maxPages {
		cursor, err := made.page(ctx, session, number, taken)
		switch {
		case taken.over.Load(), err == nil && made.size > maxListBytes:
			return nil, errList
		case err != nil:
			return nil, err
		}
		if cursor == "" || seen[cursor] || len(made.tools) > maxListed {
			made.sum()
			return made, nil
		}
		seen[cursor], taken.cursor = true, cursor
	}
	return nil, errList
}

// page reads one page, and returns the cursor of the next, "" = there is none.
func (o *offer) page(ctx context.Context, session *mcp.ClientSession, number int, taken *listing) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx, answer := withReply(ctx)
	params := new(mcp.ListToolsParams)
	if number > 0 {
		params.Cursor = strconv.Itoa(number)
	}
	annotated, err := session.ListTools(ctx, params)
	if err != nil {
		return "", err
	}
	var page struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor json.RawMessage   `json:"nextCursor"`
	}
	if err := json.Unmarshal(answer.result, &page); err != nil {
		return "", fmt.Errorf("its list cannot be read: %w", err)
	}
	for _, raw := range page.Tools {
		if rawjson.IsNull(raw) {
			continue
		}
		tool, name, err := readListed(raw)
		if err == nil && bytes.Contains(raw, []byte(headerAnnotation)) && !slices.ContainsFunc(annotated.Tools,
			func(known *mcp.Tool) bool { return known.Name == name }) {
			err = errors.New("its x-mcp-header annotations are not valid")
		}
		if err == nil && len(o.tools) == maxListed {
			err = fmt.Errorf("the server lists more than %d tools", maxListed)
		}
		if err != nil {
			o.drop(name, err)
			continue
		}
		o.size += len(tool.name) + len(tool.description) + len(tool.schema)
		o.tools = append(o.tools, tool)
	}
	if rawjson.IsNull(page.NextCursor) {
		return "", nil
	}
	var cursor string
	if json.Unmarshal(page.NextCursor, &cursor) != nil {
		cursor = string(page.NextCursor) // a number, as some count
	}
	return cursor, nil
}

func (o *offer) drop(name string, why error) {
	if len(o.dropped) < maxDropped {
		o.dropped = append(o.dropped, Dropped{Name: clean(name, maxToolName), Reason: clean(why.Error(), maxErrorText)})
	}
}

const maxToolName = 200

func (o *offer) sum() {
	hash := sha256.New()
	for _, tool := range o.tools {
		fmt.Fprintf(hash, "%q %q %q\n", tool.name, tool.description, tool.schema)
	}
	for _, one := range o.dropped {
		fmt.Fprintf(hash, "%q\n", one)
	}
	o.content = [sha256.Size]byte(hash.Sum(nil))
}

// readListed reads a tool of a page.
func readListed(raw json.RawMessage) (made *listed, name string, err error) {
	var wire struct {
		Name        string          `json:"name"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations struct {
			Title string `json:"title"`
		} `json:"annotations"`
		Execution struct {
			TaskSupport string `json:"taskSupport"`
		} `json:"execution"`
	}
	unreadable := json.Unmarshal(raw, &wire)
	switch {
	case wire.Name == "":
		return nil, wire.Name, errors.New("it has no name")
	case unreadable != nil:
		return nil, wire.Name, errors.New("its description is not one of the protocol")
	case wire.Execution.TaskSupport == "required":
		return nil, wire.Name, errors.New("it runs as a task only, which is not supported")
	}
	made = &listed{name: wire.Name, description: wire.Description}
	for _, title := range []string{wire.Title, wire.Annotations.Title} {
		if made.description == "" {
			made.description = title
		}
	}
	made.description = clean(made.description, maxDescription)
	if !rawjson.IsNull(wire.InputSchema) {
		made.schema = json.RawMessage(compacted(wire.InputSchema))
	}
	return made, wire.Name, nil
}

// listing is the state of one list while it is read.
type listing struct {
	bytes, values atomic.Int64
	over          atomic.Bool
	cursor        string // of the page that is asked for
}

type listingKey struct{}

// withListing returns a context whose answers are counted together.
func withListing(ctx context.Context) (context.Context, *listing) {
	made := new(listing)
	return context.WithValue(ctx, listingKey{}, made), made
}

// take counts a piece of an answer. A nil listing bounds nothing.
func (l *listing) take(size, values int) error {
	if l == nil {
		return nil
	}
	if l.bytes.Add(int64(size)) > maxListBytes || l.values.Add(int64(values)) > maxListValues {
		l.over.Store(true)
		return errList
	}
	return nil
}

// slim is a middleware: the client library keeps a page as long as the session lives, under its cursor. So it knows pages by their
// numbers, since a server that invents new cursors each time would leave its pages behind, and schemas as JSON, which takes a
// fraction of the memory.
func slim(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		params, is := request.GetParams().(*mcp.ListToolsParams)
		taken, _ := ctx.Value(listingKey{}).(*listing)
		if !is || taken == nil {
			return next(ctx, method, request)
		}
		number := params.Cursor
		params.Cursor = taken.cursor
		answer, err := next(ctx, method, request)
		params.Cursor = number
		page, is := answer.(*mcp.ListToolsResult)
		if err != nil || !is {
			return answer, err
		}
		for _, tool := range page.Tools {
			if raw, err := json.Marshal(tool.InputSchema); err == nil {
				tool.InputSchema = json.RawMessage(raw)
			}
		}
		return page, nil
	}
}
