package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Webhook configures how webhook endpoints are told of events. These settings go by the names of document 1, too:
// WEBHOOK_TIMEOUT_MS and so on, without PARLEY_. They must be alike on all nodes.
type Webhook struct {
	// Time limit of one attempt in milliseconds.
	TimeoutMS int `key:"timeout_ms" document:"WEBHOOK_TIMEOUT_MS" default:"10000" range:"1000..300000"`
	// Seconds to wait after each failed attempt, the first after the first; one more attempt than there are is made.
	RetryScheduleSeconds []string `key:"retry_schedule_seconds" document:"WEBHOOK_RETRY_SCHEDULE_SECONDS" default:"60,300,1800,7200,21600,43200,86400"`
	// Hours of continuous failure after which an endpoint is disabled.
	AutoDisableHours int `key:"auto_disable_hours" document:"WEBHOOK_AUTO_DISABLE_HOURS" default:"72" range:"1..87600"`
	// Days for which a delivery that has succeeded or failed can be read.
	DeliveryRetentionDays int `key:"delivery_retention_days" document:"WEBHOOK_DELIVERY_RETENTION_DAYS" default:"30" range:"1..3650"`
	// Attempts that are under way at the same time on this node; no endpoint has more than half of them, no tenant more than three quarters, if there are four.
	Concurrency int `key:"concurrency" document:"WEBHOOK_CONCURRENCY" default:"8" range:"1..10_000"`
	// Deliveries of one endpoint that may be waiting; further events fail at once, and the endpoint counts as failing.
	MaxPending int `key:"max_pending" default:"100000" range:"1..10_000_000"`
}

// Timeout is that of one attempt.
func (w Webhook) Timeout() time.Duration { return time.Duration(w.TimeoutMS) * time.Millisecond }

const (
	maxWaits     = 50
	maxRetryWait = 30 * 24 * time.Hour
)

// Waits are the pauses between attempts.
func (w Webhook) Waits() ([]time.Duration, error) {
	if len(w.RetryScheduleSeconds) > maxWaits {
		return nil, fmt.Errorf("at most %d waits", maxWaits)
	}
	waits := make([]time.Duration, 0, len(w.RetryScheduleSeconds))
	for _, text := range w.RetryScheduleSeconds {
		seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
		wait := time.Duration(seconds) * time.Second
		if err != nil || wait == 0 || wait > maxRetryWait {
			return nil, fmt.Errorf("%q is no number of seconds from 1 to %d", text, int(maxRetryWait.Seconds()))
		}
		waits = append(waits, wait)
	}
	return waits, nil
}

func (c *Config) checkWebhook(k *checker) {
	if _, err := c.Webhook.Waits(); err != nil {
		k.failf("webhook.retry_schedule_seconds", "%w", err)
	}
}
