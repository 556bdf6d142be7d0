"""What watches the operations of servers: traces and metrics of OpenTelemetry, and the access log.

No other part of the package imports OpenTelemetry. An engine gets what the settings ask for as its `Ports.instrument`.
"""
