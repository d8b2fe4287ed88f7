// Package zdeps keeps modules in go.mod while the code that uses them is being written. Removed before release.
package zdeps

import (
	_ "github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/anthropics/anthropic-sdk-go"
	_ "github.com/asynkron/protoactor-go/actor"
	_ "github.com/chromedp/chromedp"
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/cockroachdb/pebble/v2/vfs/errorfs"
	_ "github.com/fasthttp/router"
	_ "github.com/goccy/go-yaml"
	_ "github.com/lestrrat-go/jwx/v3/jwk"
	_ "github.com/lestrrat-go/jwx/v3/jwt"
	_ "github.com/oklog/run"
	_ "github.com/openai/openai-go/v3"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/stretchr/testify/require"
	_ "github.com/swaggo/files/v2"
	_ "github.com/valyala/fasthttp"
	_ "go.etcd.io/raft/v3"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/time/rate"
	_ "pgregory.net/rapid"
)
