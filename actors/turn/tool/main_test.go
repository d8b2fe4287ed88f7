package tool_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// serveVariable makes the test binary an MCP server on its standard input and output.
const serveVariable = "PARLEY_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		_ = mcpServer(os.Getenv(serveVariable), nil, new(atomic.Int32)).Run(context.Background(), &mcp.StdioTransport{})
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
