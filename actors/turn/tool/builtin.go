package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"parley/proto/agentpb"
)

// The built-in tools.
const (
	// CurrentTime tells the time.
	CurrentTime = "current_time"
	// RandomNumber draws a whole number. Repeating it gives another one, so it is not idempotent unless its policy says
	// so.
	RandomNumber = "random_number"
)

// IsBuiltin says whether a built-in tool has this name.
func IsBuiltin(name string) bool { return name == CurrentTime || name == RandomNumber }

const numberSchema = `{"type":"object","properties":{"min":{"type":"integer"},"max":{"type":"integer"}},` +
	`"required":["min","max"],"additionalProperties":false}`

const timeSchema = `{"type":"object","properties":{"timezone":{"type":"string","maxLength":64,` +
	`"description":"IANA time zone, such as Europe/Istanbul; UTC when absent"}},"additionalProperties":false}`

// builtin makes the tool one of the built-in ones.
func builtin(tool *Tool, spec *agentpb.Tool) error {
	var description, definition string
	switch spec.GetBuiltin() {
	case CurrentTime:
		description, definition, tool.run = "Tells the current date and time.", timeSchema, currentTime
	case RandomNumber:
		description, definition, tool.run = "Draws a random whole number from min to max.", numberSchema, randomNumber
	default:
		return fmt.Errorf("there is no built-in tool %q", spec.GetBuiltin())
	}
	if tool.Description == "" {
		tool.Description = description
	}
	if len(spec.GetSchema()) == 0 {
		tool.Schema = []byte(definition)
	}
	return nil
}

func randomNumber(_ context.Context, call *Call) (string, error) {
	var args struct {
		Min int64 `json:"min"`
		Max int64 `json:"max"`
	}
	if json.Unmarshal(call.Args, &args) != nil {
		return "", failure("the arguments cannot be read")
	}
	span := uint64(args.Max) - uint64(args.Min) // correct for the whole range of both
	if args.Max < args.Min {
		return "", failure("max is below min")
	}
	drawn := args.Min
	if span == math.MaxUint64 {
		drawn = int64(rand.Uint64())
	} else {
		drawn += int64(rand.Uint64N(span + 1)) //nolint:gosec // not used for secrets
	}
	return strconv.FormatInt(drawn, 10), nil
}

func currentTime(_ context.Context, call *Call) (string, error) {
	var args struct {
		Timezone string `json:"timezone"`
	}
	if json.Unmarshal(call.Args, &args) != nil {
		return "", failure("the arguments cannot be read")
	}
	zone, err := time.LoadLocation(args.Timezone)
	if err != nil || args.Timezone == "Local" {
		return "", failure("there is no time zone %q", args.Timezone)
	}
	now := time.Now().In(zone)
	text, err := json.Marshal(struct {
		Time     string `json:"time"`
		Timezone string `json:"timezone"`
		Weekday  string `json:"weekday"`
	}{now.Format(time.RFC3339), zone.String(), now.Weekday().String()})
	return string(text), err
}
