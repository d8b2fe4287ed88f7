package standin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a model and tools at one loopback address.
type Server struct {
	Model *Model
	Tools *Tools

	url  string
	http *http.Server
	busy sync.WaitGroup // the server's goroutines
}

// Start serves at a free loopback port until Close. pace is how long each tool waits before its work, and again after
// it.
func Start(ctx context.Context, pace time.Duration) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("stand-in model: %w", err)
	}
	s := &Server{Model: newModel(), Tools: newTools(pace), url: "http://" + listener.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.Model.serve)
	mux.HandleFunc("POST /tools/{name}", s.Tools.serve)
	s.http = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.busy.Add(1)
		defer s.busy.Done()
		mux.ServeHTTP(w, r)
	})}
	s.busy.Go(func() {
		_ = s.http.Serve(listener) // ends with Close, which says no more than that
	})
	return s, nil
}

// ModelURL is the base URL of the model.
func (s *Server) ModelURL() string { return s.url + "/v1" }

// ToolURL is the URL of a tool; any name works.
func (s *Server) ToolURL(name string) string { return s.url + "/tools/" + name }

// Close ends the server and its connections, and waits for work in progress.
func (s *Server) Close() error {
	err := s.http.Close()
	s.busy.Wait()
	if err != nil {
		return fmt.Errorf("stand-in model: %w", err)
	}
	return nil
}
