package opsapi

import (
	"net"
	"sync"
)

// limited bounds the open connections; further ones wait in the kernel's backlog.
type limited struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limitListener(listener net.Listener, connections int) net.Listener {
	return &limited{Listener: listener, places: make(chan struct{}, connections), closed: make(chan struct{})}
}

// Accept waits for a free slot, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close also ends a waiting Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placed is a connection that frees its slot when it is closed.
type placed struct {
	net.Conn
	leave func()
}

// Close closes the connection and frees its slot.
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
