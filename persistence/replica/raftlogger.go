package replica

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// raftLogger passes on what raft says. Its chatter about elections is for debugging; what matters of it the driver logs itself.
type raftLogger struct{ logger *slog.Logger }

var _ raft.Logger = (*raftLogger)(nil)

func (l *raftLogger) log(level slog.Level, text func() string) {
	if l.logger.Enabled(context.Background(), level) {
		l.logger.LogAttrs(context.Background(), level, "raft", slog.String("event", text()))
	}
}

func (l *raftLogger) Debug(v ...any) {
	l.log(slog.LevelDebug-4, func() string { return fmt.Sprint(v...) })
}
func (l *raftLogger) Debugf(format string, v ...any) {
	l.log(slog.LevelDebug-4, func() string { return fmt.Sprintf(format, v...) })
}

func (l *raftLogger) Info(v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprint(v...) })
}
func (l *raftLogger) Infof(format string, v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprintf(format, v...) })
}

func (l *raftLogger) Warning(v ...any) {
	l.log(slog.LevelWarn, func() string { return fmt.Sprint(v...) })
}

func (l *raftLogger) Warningf(format string, v ...any) {
	l.log(slog.LevelWarn, func() string { return fmt.Sprintf(format, v...) })
}

func (l *raftLogger) Error(v ...any) {
	l.log(slog.LevelError, func() string { return fmt.Sprint(v...) })
}

func (l *raftLogger) Errorf(format string, v ...any) {
	l.log(slog.LevelError, func() string { return fmt.Sprintf(format, v...) })
}

// raft calls the last four when going on would break its promises; the driver's guard makes that the failure of the store.

func (l *raftLogger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l *raftLogger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (l *raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l *raftLogger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
