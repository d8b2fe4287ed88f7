package tool_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// serveVariable makes the test binary an MCP server on its standard input and output; growVariable, one whose list grows.
const (
	serveVariable = "PARLEY_TEST_MCP_SERVER"
	growVariable  = "PARLEY_TEST_MCP_GROWS"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		server := mcpServer(os.Getenv(serveVariable), nil, new(atomic.Int32))
		if os.Getenv(growVariable) != "" {
			grows(server)
		}
		_ = server.Run(context.Background(), &mcp.StdioTransport{})
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
