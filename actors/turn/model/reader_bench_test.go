package model

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// BenchmarkRead is what a token costs that comes in an event of its own.
func BenchmarkRead(b *testing.B) {
	const tokens = 2000
	for _, w := range wires() {
		b.Run(w.name, func(b *testing.B) {
			body := []byte(w.answer(slices.Repeat([]string{"word "}, tokens)...))
			adapter, _ := New(Config{})[w.kind].(*network)
			under := *adapter
			under.client = &http.Client{Transport: canned{body: body}}
			request := w.request(&httptest.Server{URL: "http://provider.invalid"})
			b.ReportAllocs()
			for b.Loop() {
				answer, err := under.Generate(b.Context(), request, &heard{})
				if err != nil || len(answer.Text) != 5*tokens {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
		})
	}
}
