"""What every Headway service process shares: settings, logs, telemetry, serving, draining."""
