package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"parley/proto/agentpb"
)

// CurrentTime is the built-in tool that tells the time.
const CurrentTime = "current_time"

const timeSchema = `{"type":"object","properties":{"timezone":{"type":"string","maxLength":64,` +
	`"description":"IANA time zone, such as Europe/Istanbul; UTC when absent"}},"additionalProperties":false}`

// builtin makes the tool one that this process has itself.
func builtin(tool *Tool, spec *agentpb.Tool) error {
	if spec.GetBuiltin() != CurrentTime {
		return fmt.Errorf("there is no built-in tool %q", spec.GetBuiltin())
	}
	if tool.Description == "" {
		tool.Description = "Tells the current date and time."
	}
	if len(spec.GetSchema()) == 0 {
		tool.Schema = []byte(timeSchema)
	}
	tool.run = currentTime
	return nil
}

func currentTime(_ context.Context, call *Call) (string, error) {
	var asked struct {
		Timezone string `json:"timezone"`
	}
	if json.Unmarshal(call.Args, &asked) != nil {
		return "", failure("the arguments cannot be read")
	}
	zone, err := time.LoadLocation(asked.Timezone)
	if err != nil || asked.Timezone == "Local" {
		return "", failure("there is no time zone %q", asked.Timezone)
	}
	now := time.Now().In(zone)
	text, err := json.Marshal(struct {
		Time     string `json:"time"`
		Timezone string `json:"timezone"`
		Weekday  string `json:"weekday"`
	}{now.Format(time.RFC3339), zone.String(), now.Weekday().String()})
	return string(text), err
}
