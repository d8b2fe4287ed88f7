package httpedge

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley/httpedge/endpoint"
)

// classes are the status classes, index status/100.
const classes = 6

type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	perRoute  map[*endpoint.Route]*routeMetrics // filled before the first request, then only read
	unmatched routeMetrics
}

// routeMetrics are resolved once per route, so that a request costs no lookup by label.
type routeMetrics struct {
	requests [classes]prometheus.Counter
	duration prometheus.Observer
}

func newMetrics(registerer prometheus.Registerer, s *Server) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_requests_total", Help: "Answered requests by route, method and status class.",
		}, []string{"route", "method", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_http_request_duration_seconds", Help: "Time to answer a request, by route and method.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300},
		}, []string{"route", "method"}),
		perRoute: make(map[*endpoint.Route]*routeMetrics),
	}
	m.resolve(&m.unmatched, routeLabel(nil), "any")
	if registerer == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	registerer.MustRegister(
		m.requests, m.durations,
		gauge("parley_http_requests_in_flight", "Requests that are being answered.",
			func() float64 { return float64(s.mux.InFlight()) }),
		gauge("parley_http_streams_open", "Event streams that are open.",
			func() float64 { return float64(s.mux.Streams()) }),
		gauge("parley_http_connections_open", "Open connections, event streams not counted.",
			func() float64 { return float64(s.listener.connections()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "parley_http_connections_refused_total", Help: "Connections refused because too many were open.",
		}, func() float64 { return float64(s.listener.refused.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "parley_http_accept_failures_total", Help: "Connections that could not be accepted: no file descriptor or memory was left.",
		}, func() float64 { return float64(s.listener.Failures()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "parley_http_connections_shed_total", Help: "Idle connections closed because no file descriptor was left.",
		}, func() float64 { return float64(s.listener.shed.Load()) }),
	)
	return m
}

// routes resolves the metrics of all routes.
func (m *metrics) routes(routes []endpoint.MountedRoute) {
	for _, mounted := range routes {
		resolved := new(routeMetrics)
		m.resolve(resolved, routeLabel(mounted.Route), mounted.Route.Method)
		m.perRoute[mounted.Route] = resolved
	}
}

func (m *metrics) resolve(into *routeMetrics, route, method string) {
	for class := range into.requests {
		into.requests[class] = m.requests.WithLabelValues(route, method, statusClass(class))
	}
	into.duration = m.durations.WithLabelValues(route, method)
}

func statusClass(class int) string {
	return [classes]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}[class]
}

func (m *metrics) observe(done *endpoint.Done) {
	of := &m.unmatched
	if found := m.perRoute[done.Route]; found != nil {
		of = found
	}
	class := done.Status / 100
	if class < 1 || class >= classes {
		class = 0
	}
	of.requests[class].Inc()
	of.duration.Observe(done.Elapsed.Seconds())
}
