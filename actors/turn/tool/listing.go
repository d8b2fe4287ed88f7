package tool

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of a server's list, over all its pages: it is held whole.
const (
	maxListed     = 500
	maxPages      = maxListed // a page may be empty
	maxListBytes  = 4 << 20
	maxListValues = 100_000
	maxLists      = 64 << 20 // twice what all lists together may take
)

var errList = errors.New("it lists too much")

// offer is a server's list of tools at one time. Immutable.
type offer struct {
	tools   []*mcp.Tool // slim
	content [sha256.Size]byte
	size    int // bytes of the tools
}

// list reads all pages of a server's tools. What comes over HTTP is bounded before it is decoded, see listing.
func list(ctx context.Context, session *mcp.ClientSession) (*offer, error) {
	ctx, taken := withListing(ctx)
	made := new(offer)
	params := new(mcp.ListToolsParams)
	for range maxPages {
		page, err := session.ListTools(ctx, params)
		switch {
		case taken.over.Load():
			return nil, errList
		case err != nil:
			return nil, err
		}
		for _, tool := range page.Tools {
			schema, _ := tool.InputSchema.(json.RawMessage)
			made.size += len(tool.Name) + len(tool.Title) + len(tool.Description) + len(schema)
		}
		made.tools = append(made.tools, page.Tools...)
		if len(made.tools) > maxListed || made.size > maxListBytes {
			return nil, errList
		}
		if page.NextCursor == "" {
			raw, err := json.Marshal(made.tools)
			made.content = sha256.Sum256(raw)
			return made, err
		}
		params.Cursor = page.NextCursor
	}
	return nil, errList
}

// listing counts the answers to the requests of one list as they come.
type listing struct {
	bytes, values atomic.Int64
	over          atomic.Bool
}

type listingKey struct{}

// withListing returns a context whose answers are counted together.
func withListing(ctx context.Context) (context.Context, *listing) {
	made := new(listing)
	return context.WithValue(ctx, listingKey{}, made), made
}

// take counts a piece of an answer. A nil listing bounds nothing.
func (l *listing) take(bytes, values int) error {
	if l == nil {
		return nil
	}
	if l.bytes.Add(int64(bytes)) > maxListBytes || l.values.Add(int64(values)) > maxListValues {
		l.over.Store(true)
		return errList
	}
	return nil
}

// slim is a middleware of one session: it takes out of a page what is not used, before the client library keeps the page for as
// long as the session lives. Schemas become JSON again, which takes a fraction of the memory, and cursors become the numbers
// of their pages: a server that invents new ones each time would leave its pages behind.
func slim(next mcp.MethodHandler) mcp.MethodHandler {
	cursors := make(map[string]string) // by number; a session lists once at a time
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		params, is := request.GetParams().(*mcp.ListToolsParams)
		if !is {
			return next(ctx, method, request)
		}
		number := params.Cursor
		params.Cursor = cursors[number]
		answer, err := next(ctx, method, request)
		params.Cursor = number
		page, is := answer.(*mcp.ListToolsResult)
		if err != nil || !is {
			return answer, err
		}
		for index, tool := range page.Tools {
			page.Tools[index] = slimTool(tool)
		}
		if page.NextCursor != "" {
			before, _ := strconv.Atoi(number) // "" is 0
			following := strconv.Itoa(before + 1)
			cursors[following] = page.NextCursor
			page.NextCursor = following
		}
		return page, nil
	}
}

func slimTool(tool *mcp.Tool) *mcp.Tool {
	if tool == nil {
		return nil
	}
	made := &mcp.Tool{Name: tool.Name, Title: tool.Title, Description: clean(tool.Description, maxDescription)}
	if raw, err := json.Marshal(tool.InputSchema); err == nil && string(raw) != "null" {
		made.InputSchema = json.RawMessage(raw)
	}
	return made
}
